package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// The functions of the package are those of one Client.
func TestPackageLevelClient(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		for r := c.Request(); r != nil; r = c.Request() {
			if string(r.Header.RequestURI()) == "/moved" {
				c.Send("HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	ctx, soon := t.Context(), time.Now().Add(harness.Patience)
	req, resp := harness.NewCall("GET", p.URL("/ok"))
	var form sluice.Args
	form.Set("k", "v")
	get := func(status int, body []byte, err error) error {
		if err == nil && (status != 200 || string(body) != "ok") {
			return errors.New("another answer: " + string(body))
		}
		return err
	}
	do := func(err error) error { return get(resp.StatusCode(), resp.Body(), err) } // resp is read after the call
	for name, call := range map[string]func() error{
		"Do":          func() error { return do(sluice.Do(req, resp)) },
		"DoTimeout":   func() error { return do(sluice.DoTimeout(req, resp, harness.Patience)) },
		"DoDeadline":  func() error { return do(sluice.DoDeadline(req, resp, soon)) },
		"DoContext":   func() error { return do(sluice.DoContext(ctx, req, resp)) },
		"Get":         func() error { return get(sluice.Get(nil, p.URL("/moved"))) },
		"GetTimeout":  func() error { return get(sluice.GetTimeout(nil, p.URL("/moved"), harness.Patience)) },
		"GetDeadline": func() error { return get(sluice.GetDeadline(nil, p.URL("/moved"), soon)) },
		"GetContext":  func() error { return get(sluice.GetContext(ctx, nil, p.URL("/moved"))) },
		"Post":        func() error { return get(sluice.Post(nil, p.URL("/ok"), &form)) },
		"PostContext": func() error { return get(sluice.PostContext(ctx, nil, p.URL("/ok"), &form)) },
		"DoRedirects": func() error {
			moved, answer := harness.NewCall("GET", p.URL("/moved"))
			err := sluice.DoRedirects(moved, answer, 1)
			return get(answer.StatusCode(), answer.Body(), err)
		},
	} {
		resp.Reset()
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, err := range map[string]error{
		"DoContext": sluice.DoContext(ended, req, resp), "DoTimeout": sluice.DoTimeout(req, resp, -1), "DoDeadline": sluice.DoDeadline(req, resp, time.Unix(1, 0)),
	} {
		if err == nil {
			t.Errorf("%s ends without an error", name)
		}
	}
}
