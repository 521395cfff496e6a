package sluice

import (
	"strings"
	"testing"
)

// nasty texts each try to leave the place they are put in.
var nasty = []string{
	"", "a\r\nInjected: yes", "a\nInjected: yes", "a\rInjected: yes", "\x00", "a\x7f\x01b", "a b", "a:b", "\r\n\r\nGET /evil HTTP/1.1",
	" HTTP/1.1\r\nX: y", "é\xff", "\t x \t", "; a=b", "#f", "?q r", "\"", "a,b", "\u2028",
}

// TestNothingSmuggled gives nasty texts to every setter that takes text.
func TestNothingSmuggled(t *testing.T) {
	for _, s := range nasty {
		for name, set := range requestSetters {
			var h RequestHeader
			set(&h, s)
			checkRequestWire(t, name, &h)
			h.Reset()
			h.DisableSpecialHeader()
			set(&h, s)
			checkRequestWire(t, name+", raw", &h)
			h.Reset()
			h.DisableNormalizing()
			set(&h, s)
			checkRequestWire(t, name+", names kept", &h)
		}
		for name, set := range responseSetters {
			var h ResponseHeader
			set(&h, s)
			t.Run(name, func(t *testing.T) {
				checkWire(t, h.String(), false)
				checkWire(t, "x\r\n"+string(h.TrailerHeader()), false)
				if h.Peek("Injected") != nil || strings.Contains(undated(&h), "\r\nInjected") {
					t.Errorf("%q was injected: %q", s, undated(&h))
				}
			})
		}
	}
}

func checkRequestWire(t *testing.T, name string, h *RequestHeader) {
	t.Run(name, func(t *testing.T) {
		checkWire(t, h.String(), true)
		checkWire(t, "x\r\n"+string(h.TrailerHeader()), false)
		if h.Peek("Injected") != nil || strings.Contains(h.String(), "\r\nInjected") {
			t.Errorf("injected: %q", h.String())
		}
	})
}

var requestSetters = map[string]func(h *RequestHeader, s string){
	"key":        func(h *RequestHeader, s string) { h.Set(s, "v"); h.Add("X"+s, "v"); h.SetCanonical([]byte(s), nil) },
	"value":      func(h *RequestHeader, s string) { h.Set("X", s); h.Add("X", s); h.SetCanonical([]byte("x"), []byte(s)) },
	"method":     func(h *RequestHeader, s string) { h.SetMethod(s); h.SetMethod("X" + s) },
	"uri":        func(h *RequestHeader, s string) { h.SetRequestURI(s) },
	"path":       func(h *RequestHeader, s string) { h.SetRequestURI("/" + s) },
	"protocol":   func(h *RequestHeader, s string) { h.SetProtocol(s) },
	"host":       func(h *RequestHeader, s string) { h.SetHost(s) },
	"user agent": func(h *RequestHeader, s string) { h.SetUserAgent(s) },
	"referer":    func(h *RequestHeader, s string) { h.SetReferer(s) },
	"type":       func(h *RequestHeader, s string) { h.SetContentType(s) },
	"coding":     func(h *RequestHeader, s string) { h.SetContentEncoding(s) },
	"boundary":   func(h *RequestHeader, s string) { h.SetMultipartFormBoundary(s) },
	"cookie":     func(h *RequestHeader, s string) { h.SetCookie(s, s); h.SetCookie("a", s); h.SetCookie(s, "b") },
	"Cookie":     func(h *RequestHeader, s string) { h.Set("Cookie", s); h.Add("Cookie", s) },
	"connection": func(h *RequestHeader, s string) { h.Set("Connection", s); h.Set("Connection", "close, "+s) },
	"length":     func(h *RequestHeader, s string) { h.Set("Content-Length", s); h.Set("Transfer-Encoding", s) },
	"trailer": func(h *RequestHeader, s string) {
		h.SetTrailer(s)
		h.AddTrailer("X, " + s)
		h.Set("X", s)
		h.Set(s, "v")
	},
	"known, plain": func(h *RequestHeader, s string) { h.Set("Accept", s); h.Set("Date", s); h.Set("Server", s) },
}

var responseSetters = map[string]func(h *ResponseHeader, s string){
	"key":      func(h *ResponseHeader, s string) { h.Set(s, "v"); h.Add("X"+s, "v") },
	"value":    func(h *ResponseHeader, s string) { h.Set("X", s); h.Add("X", s) },
	"message":  func(h *ResponseHeader, s string) { h.SetStatusMessage([]byte(s)) },
	"protocol": func(h *ResponseHeader, s string) { h.SetProtocol([]byte(s)) },
	"server":   func(h *ResponseHeader, s string) { h.SetServer(s) },
	"type":     func(h *ResponseHeader, s string) { h.SetContentType(s) },
	"coding":   func(h *ResponseHeader, s string) { h.SetContentEncoding(s) },
	"delete":   func(h *ResponseHeader, s string) { h.DelClientCookie(s) },
	"cookie": func(h *ResponseHeader, s string) {
		var c Cookie
		c.SetKey(s)
		c.SetValue(s)
		c.SetPath(s)
		c.SetDomain(s)
		h.SetCookie(&c)
		h.Set("Set-Cookie", s)
		h.Add("Set-Cookie", s)
	},
	"trailer": func(h *ResponseHeader, s string) {
		h.SetTrailer(s)
		h.AddTrailer("X, " + s)
		h.Set("X", s)
		h.Set(s, "v")
	},
}
