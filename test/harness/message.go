package harness

import (
	"bufio"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func Reader(s string) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(s), 1<<16) }

func ReadRequest(t testing.TB, s string) *sluice.RequestHeader {
	t.Helper()
	h := new(sluice.RequestHeader)
	if err := h.Read(Reader(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return h
}

func ReadResponse(t testing.TB, s string) *sluice.ResponseHeader {
	t.Helper()
	h := new(sluice.ResponseHeader)
	if err := h.Read(Reader(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return h
}
