package sluice

import "testing"

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
			var fresh, read ResponseHeader
			set(&fresh, "set")
			if fresh.Peek("Date") != nil || fresh.Len() != 1 {
				t.Errorf("setter %d of %s: %q", i, name, fresh.String())
			}
			if err := read.Read(reader("HTTP/1.1 200 OK\r\nDate: read\r\nContent-Length: 0\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			set(&read, "set")
			if got := string(read.Peek("Date")); got != "read" {
				t.Errorf("setter %d of %s, after Read: %q", i, name, got)
			}
			var request RequestHeader
			set(&request, "set")
			if got := string(request.Peek("Date")); got != "set" {
				t.Errorf("setter %d of %s, request: %q", i, name, got)
			}
		}
	}
}
