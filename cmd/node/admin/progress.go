package admin

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

type unit int

const (
	bytesUnit unit = iota
	objectsUnit
)

// bar shows progress on the error output if that is a terminal, or was asked for; else nothing.
type bar struct{ shown *progressbar.ProgressBar }

// bar begins with an unknown total.
func (c Common) bar(env *Env, what string, u unit) *bar {
	f, ok := env.Stderr.(*os.File)
	if !c.Progress && (!ok || !term.IsTerminal(int(f.Fd()))) {
		return &bar{}
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(env.Stderr), progressbar.OptionSetDescription(what), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
	}
	if u == bytesUnit {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowCount())
	}
	return &bar{progressbar.NewOptions64(-1, options...)}
}

func (b *bar) set(done, total int64) {
	if b.shown == nil {
		return
	}
	if b.shown.GetMax64() != total && total > 0 {
		b.shown.ChangeMax64(total)
	}
	_ = b.shown.Set64(done) // it is only shown
}

func (b *bar) finish() {
	if b.shown != nil {
		_ = b.shown.Finish() // it is only shown
	}
}
