package message

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

func TestAddVary(t *testing.T) {
	for before, want := range map[string]string{
		"": "Accept-Encoding", "Origin": "Origin,Accept-Encoding", "*": "*",
		"accept-encoding": "accept-encoding", "Origin, Accept-Encoding": "Origin, Accept-Encoding",
		"Accept-Encodings": "Accept-Encodings,Accept-Encoding",
	} {
		var h ResponseHeader
		h.Table.Set(field.Vary, []byte(before))
		h.AddVary("Accept-Encoding")
		if got := string(h.Table.Get(field.Vary)); got != want {
			t.Errorf("%q: %q, want %q", before, got, want)
		}
	}
	for _, second := range []string{"accept-encoding", "Origin, Accept-Encoding", "*", "Origin"} {
		var h ResponseHeader
		h.Put("Vary", []byte("Accept"), Adds)
		h.Put("Vary", []byte(second), Adds)
		h.AddVary("Accept-Encoding")
		want := "Accept"
		if second == "Origin" {
			want = "Accept,Accept-Encoding"
		}
		if got := string(h.AppendHead(nil, Framing{})); !strings.Contains(got, "\r\nVary: "+want+"\r\nVary: "+second+"\r\n") {
			t.Errorf("a second field %q: %q", second, got)
		}
	}
	var h ResponseHeader
	if err := h.Announce([]byte("Vary")); err != nil {
		t.Fatal(err)
	}
	h.Put("Vary", []byte("Origin"), 0)
	h.AddVary("Accept-Encoding")
	if got := string(h.AppendHead(nil, Framing{})); !strings.Contains(got, "\r\nVary: Accept-Encoding\r\n") {
		t.Errorf("with a trailer field of that name: %q", got)
	}
}
