package sluice

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/h1"
)

func TestRequestParseAllocatesNothing(t *testing.T) {
	var h RequestHeader
	p := h1.HeadParser{Role: h1.Requests, Limits: h1.DefaultLimits}
	in := []byte(benchHead)
	n := testing.AllocsPerRun(100, func() {
		h.Reset()
		p.Reset()
		if _, done, err := p.Parse(&h.m.Table, in); !done || err != nil {
			t.Fatal(err)
		}
		h.m.SetParsed(&p.Head)
		if !h.IsGet() || len(h.RequestURI()) == 0 || len(h.Host()) == 0 || h.Peek("X-Request-Id") == nil || h.Cookie("a") != nil {
			t.Fatal("wrong")
		}
		_ = h.Len()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
