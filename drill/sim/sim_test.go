package sim

import (
	"os"
	"testing"
)

func TestOne(t *testing.T) {
	r := Run(t, Options{Seed: *seedFlag, Profile: ProfileNamed(os.Getenv("PROFILE"))})
	t.Log(r)
	for _, v := range r.Violations {
		t.Error(v)
	}
	if !r.OK() || testing.Verbose() {
		f, _ := os.Create("/tmp/h/sim.log")
		for _, l := range r.Log {
			f.WriteString(l + "\n")
		}
		f.Close()
	}
}

func TestMany(t *testing.T) {
	for s := range uint64(200) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			r := Run(t, Options{Seed: s + *seedFlag})
			if !r.OK() {
				t.Error(r)
			}
			for i, v := range r.Violations {
				if i < 5 {
					t.Error(v)
				}
			}
		})
	}
}
