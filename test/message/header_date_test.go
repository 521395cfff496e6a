package message_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestResponseSettersIgnoreDate: whatever the setter and the spelling, a response
// keeps the Date that it was read with, and requests have theirs.
func TestResponseSettersIgnoreDate(t *testing.T) {
	type setters interface {
		Set(key, value string)
		SetBytesK(key []byte, value string)
		SetBytesV(key string, value []byte)
		SetBytesKV(key, value []byte)
		Add(key, value string)
		AddBytesK(key []byte, value string)
		AddBytesV(key string, value []byte)
		AddBytesKV(key, value []byte)
		SetCanonical(key, value []byte)
	}
	for _, name := range []string{"Date", "date", "DATE"} {
		for i, set := range []func(h setters, value string){
			func(h setters, value string) { h.Set(name, value) },
			func(h setters, value string) { h.SetBytesK([]byte(name), value) },
			func(h setters, value string) { h.SetBytesV(name, []byte(value)) },
			func(h setters, value string) { h.SetBytesKV([]byte(name), []byte(value)) },
			func(h setters, value string) { h.Add(name, value) },
			func(h setters, value string) { h.AddBytesK([]byte(name), value) },
			func(h setters, value string) { h.AddBytesV(name, []byte(value)) },
			func(h setters, value string) { h.AddBytesKV([]byte(name), []byte(value)) },
			func(h setters, value string) { h.SetCanonical([]byte(name), []byte(value)) },
		} {
			var fresh, read sluice.ResponseHeader
			set(&fresh, "set")
			if fresh.Peek("Date") != nil || fresh.Len() != 1 {
				t.Errorf("setter %d of %s: %q", i, name, fresh.String())
			}
			if err := read.Read(harness.Reader("HTTP/1.1 200 OK\r\nDate: read\r\nContent-Length: 0\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			set(&read, "set")
			if got := string(read.Peek("Date")); got != "read" {
				t.Errorf("setter %d of %s, after Read: %q", i, name, got)
			}
			var request sluice.RequestHeader
			set(&request, "set")
			if got := string(request.Peek("Date")); got != "set" {
				t.Errorf("setter %d of %s, request: %q", i, name, got)
			}
		}
	}
}

// TestSetDate: a Date that was set is sent instead of the server's.
func TestSetDate(t *testing.T) {
	const date = "Tue, 15 Nov 1994 08:12:31 GMT"
	for name, c := range map[string]struct {
		f    func(h *sluice.ResponseHeader)
		want string // "now": the server's
	}{
		"set":            {func(h *sluice.ResponseHeader) { h.SetDate(date) }, date},
		"set twice":      {func(h *sluice.ResponseHeader) { h.SetDate("x"); h.SetDate(date) }, date},
		"none":           {func(h *sluice.ResponseHeader) { h.SetDate("") }, ""},
		"none after one": {func(h *sluice.ResponseHeader) { h.SetDate(date); h.SetDate("") }, ""},
		"deleted":        {func(h *sluice.ResponseHeader) { h.SetDate(date); h.Del("date") }, "now"},
		"Set":            {func(h *sluice.ResponseHeader) { h.SetDate(date); h.Set("Date", "x"); h.Add("Date", "x") }, date},
		"reset":          {func(h *sluice.ResponseHeader) { h.SetDate(date); h.Reset() }, "now"},
		"copied":         {func(h *sluice.ResponseHeader) { var o sluice.ResponseHeader; o.SetDate(date); o.CopyTo(h) }, date},
		"with controls":  {func(h *sluice.ResponseHeader) { h.SetDate("a\r\nb") }, "a  b"},
	} {
		var r sluice.Response
		c.f(&r.Header)
		for how, text := range map[string]string{"Response": r.String(), "ResponseHeader": r.Header.String()} {
			_, got, _ := strings.Cut(text, "\r\nDate: ")
			got, _, _ = strings.Cut(got, "\r\n")
			if sent, err := sluice.ParseHTTPDate([]byte(got)); err == nil && time.Since(sent).Abs() < time.Hour {
				got = "now"
			}
			if got != c.want || strings.Count(text, "Date:") > 1 {
				t.Errorf("%s, %s: %q, want %q", name, how, got, c.want)
			}
		}
	}
}
