package sluice

import (
	"context"
	"errors"
	"testing"
	"time"
)

// The functions of the package are those of one Client.
func TestPackageLevelClient(t *testing.T) {
	p := newClientPeer(t, func(c *peerConn) {
		for r := c.request(); r != nil; r = c.request() {
			if string(r.Header.RequestURI()) == "/moved" {
				c.send("HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	t.Cleanup(defaultClient.CloseIdleConnections)
	ctx, soon := t.Context(), time.Now().Add(clientPatience)
	req, resp := newCall("GET", p.url("/ok"))
	var form Args
	form.Set("k", "v")
	get := func(status int, body []byte, err error) error {
		if err == nil && (status != 200 || string(body) != "ok") {
			return errors.New("another answer: " + string(body))
		}
		return err
	}
	do := func(err error) error { return get(resp.StatusCode(), resp.Body(), err) } // resp is read after the call
	for name, call := range map[string]func() error{
		"Do":          func() error { return do(Do(req, resp)) },
		"DoTimeout":   func() error { return do(DoTimeout(req, resp, clientPatience)) },
		"DoDeadline":  func() error { return do(DoDeadline(req, resp, soon)) },
		"DoContext":   func() error { return do(DoContext(ctx, req, resp)) },
		"Get":         func() error { return get(Get(nil, p.url("/moved"))) },
		"GetTimeout":  func() error { return get(GetTimeout(nil, p.url("/moved"), clientPatience)) },
		"GetDeadline": func() error { return get(GetDeadline(nil, p.url("/moved"), soon)) },
		"GetContext":  func() error { return get(GetContext(ctx, nil, p.url("/moved"))) },
		"Post":        func() error { return get(Post(nil, p.url("/ok"), &form)) },
		"PostContext": func() error { return get(PostContext(ctx, nil, p.url("/ok"), &form)) },
		"DoRedirects": func() error {
			moved, answer := newCall("GET", p.url("/moved"))
			err := DoRedirects(moved, answer, 1)
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
		"DoContext": DoContext(ended, req, resp), "DoTimeout": DoTimeout(req, resp, -1), "DoDeadline": DoDeadline(req, resp, time.Unix(1, 0)),
	} {
		if err == nil {
			t.Errorf("%s ends without an error", name)
		}
	}
}
