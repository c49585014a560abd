package s3test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Fate is what a proxy does with one request.
type Fate int

// The fates of a request.
const (
	Pass       Fate = iota // it is passed on, and its answer back
	LoseAnswer             // it takes effect, and the connection is cut before the answer
	LoseAsked              // the connection is cut before it is passed on
	Refuse                 // it is answered with 503 SlowDown
	Gone                   // it is answered with 404 NoSuchUpload
	Late                   // the connection is cut, and it is passed on when Deliver is called
)

// Proxy stands between a client and a server. It lets a test decide on every request.
type Proxy struct {
	// Endpoint is its URL.
	Endpoint string

	mu     sync.Mutex
	decide func(*http.Request) Fate
	strip  []string
	date   time.Time
	log    []*http.Request
	late   []func() int
	passed func(*http.Request)
}

// NewProxy starts a proxy in front of a server, and ends it with the test.
func NewProxy(t testing.TB, server *Server) *Proxy {
	p := &Proxy{}
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	forward := &httputil.ReverseProxy{
		Transport: transport,
		// The Host is signed: it stays.
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.date.IsZero() {
				r.Header.Set("Date", p.date.UTC().Format(http.TimeFormat))
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(forward, w, r) }))
	p.Endpoint = front.URL
	t.Cleanup(front.Close)
	return p
}

func (p *Proxy) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	decide, strip := p.decide, p.strip
	p.log = append(p.log, r.Clone(context.Background()))
	p.mu.Unlock()
	fate := Pass
	if decide != nil {
		fate = decide(r)
	}
	if len(strip) > 0 {
		resign(r, strip)
	}
	switch fate {
	case Pass:
		forward.ServeHTTP(w, r)
		p.mu.Lock()
		passed := p.passed
		p.mu.Unlock()
		if passed != nil {
			passed(r)
		}
	case LoseAnswer:
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // cuts the connection
	case LoseAsked:
		panic(http.ErrAbortHandler)
	case Late:
		data, _ := io.ReadAll(r.Body)
		later := r.Clone(context.Background())
		later.Body = io.NopCloser(bytes.NewReader(data))
		p.mu.Lock()
		p.late = append(p.late, func() int {
			to := httptest.NewRecorder()
			forward.ServeHTTP(to, later)
			return to.Code
		})
		p.mu.Unlock()
		panic(http.ErrAbortHandler)
	case Refuse:
		answer(w, r, http.StatusServiceUnavailable, "SlowDown")
	case Gone:
		answer(w, r, http.StatusNotFound, "NoSuchUpload")
	}
}

func answer(w http.ResponseWriter, r *http.Request, status int, code string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>planned</Message></Error>`, code)
}

// Decide sets what happens to each request from now on; nil: all pass.
func (p *Proxy) Decide(decide func(*http.Request) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = decide
}

// Deliver passes on what was to come late, in the order of its sending, and returns the status codes of the answers.
func (p *Proxy) Deliver() []int {
	p.mu.Lock()
	late := p.late
	p.late = nil
	p.mu.Unlock()
	var codes []int
	for _, deliver := range late {
		codes = append(codes, deliver())
	}
	return codes
}

// Passed sets what is called after each request that was passed on and answered; nil: nothing.
func (p *Proxy) Passed(passed func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed = passed
}

// Next lets one request, the next one that matches, meet its fate.
func (p *Proxy) Next(fate Fate, match func(*http.Request) bool) {
	var once sync.Once
	p.Decide(func(r *http.Request) Fate {
		f := Pass
		if match(r) {
			once.Do(func() { f = fate })
		}
		return f
	})
}

// Strip makes the server behind the proxy one that does not know these headers.
func (p *Proxy) Strip(headers ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.strip = headers
}

// SetDate makes the server say that it is this time, in whole seconds.
func (p *Proxy) SetDate(date time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.date = date
}

// Requests returns the requests until now, without their bodies, and forgets them.
func (p *Proxy) Requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.log
	p.log = nil
	return log
}

// resign takes headers out of a request and signs what is left, as its sender would have.
func resign(r *http.Request, strip []string) {
	data, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(data))
	for _, h := range strip {
		r.Header.Del(h)
	}
	hash := r.Header.Get("X-Amz-Content-Sha256")
	r.Header.Del("Authorization")
	out := r.Clone(r.Context())
	out.URL.Host, out.URL.Scheme = r.Host, "http"
	out.ContentLength = r.ContentLength
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if signer.SignHTTP(r.Context(), aws.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey}, out, hash, "s3", Region, time.Now()) == nil {
		r.Header = out.Header
	}
}
