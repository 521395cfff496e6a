package h1

import (
	"errors"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

func TestTargetForms(t *testing.T) {
	for _, c := range []struct {
		method, target, authority string
		absolute                  bool
		err                       error
	}{
		{"GET", "/", "", false, nil},
		{"GET", "//a", "", false, nil},
		{"GET", "/http://a/", "", false, nil},
		{"OPTIONS", "*", "", false, nil},
		{"OPTIONS", "/", "", false, nil},
		{"GET", "http://a", "a", true, nil},
		{"GET", "hTTpS://a.b:8080/?x=://", "a.b:8080", true, nil},
		{"OPTIONS", "http://a", "a", true, nil},
		{"CONNECT", "a:1", "a:1", false, nil},
		{"CONNECT", "[2001:db8::1]:443", "[2001:db8::1]:443", false, nil},
		{"connect", "/", "", false, nil},
		{"GET", "*", "", false, ErrTargetForm},
		{"options", "*", "", false, ErrTargetForm},
		{"GET", "a:1", "", false, ErrTarget},
		{"GET", "mailto:a", "", false, ErrTarget},
		{"GET", "h2://a/", "", false, ErrMisdirected},
		{"GET", "httpx://a/", "", false, ErrMisdirected},
		{"GET", "http://a@b/", "", false, ErrHost},
		{"GET", "http://a:b/", "", false, ErrHost},
		{"GET", "http://a[/", "", false, ErrHost},
		{"CONNECT", "a:", "", false, ErrTargetForm},
		{"CONNECT", "*", "", false, ErrTargetForm},
		{"CONNECT", "a:1/", "", false, ErrTargetForm},
		{"CONNECT", "a:65536", "", false, ErrTargetForm},
	} {
		p := HeadParser{Limits: DefaultLimits}
		var tab field.Table
		in := c.method + " " + c.target + " HTTP/1.0\r\n\r\n"
		_, done, err := p.Parse(&tab, []byte(in))
		if done != (c.err == nil) || !errors.Is(err, c.err) {
			t.Errorf("%q: done=%v, %v, want %v", in, done, err, c.err)
			continue
		}
		if got := string(p.Authority.In(tab.Raw())); done && (got != c.authority || p.Has(AbsoluteForm) != c.absolute) {
			t.Errorf("%q: authority %q, absolute=%v", in, got, p.Has(AbsoluteForm))
		}
	}
}

func TestStatuses(t *testing.T) {
	for in, want := range map[string]int{
		"GET / HTTP/3.0\r\n": 505, "GET / HTTP/0.9\r\n": 505, "GET / HTTP/1\r\n": 400, "GET / HTTP/2\r\n": 400, "GET /\r\n": 400,
	} {
		var e *Error
		if _, _, _, err := parseIn(Requests, in, len(in)); !errors.As(err, &e) || e.Status != want {
			t.Errorf("%q: %v, want status %d", in, err, want)
		}
	}
}

// Every three-digit code from 100 on is valid, known or not.
func TestStatusCodes(t *testing.T) {
	for code := range 1000 {
		in := "HTTP/1.1 " + string([]byte{'0' + byte(code/100), '0' + byte(code/10%10), '0' + byte(code%10)}) + " x\r\n\r\n"
		p := HeadParser{Limits: DefaultLimits, Role: Responses}
		var tab field.Table
		_, done, err := p.Parse(&tab, []byte(in))
		if ok := code >= 100; done != ok || ok != (err == nil) || ok && p.StatusCode != code {
			t.Errorf("%q: %d, done=%v, %v", in, p.StatusCode, done, err)
		}
	}
}
