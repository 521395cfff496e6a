package router

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// github has the routes of version 3 of GitHub's API.
//
//go:embed testdata/github.txt
var github string

// manyRoutes returns n patterns, as the services of a gateway have them.
func manyRoutes(n int) (patterns []string) {
	for i := range n {
		switch service := i / 10; i % 5 {
		case 0:
			patterns = append(patterns, fmt.Sprintf("GET /service%d/items%d", service, i))
		case 1:
			patterns = append(patterns, fmt.Sprintf("GET /service%d/items%d/{id}", service, i))
		case 2:
			patterns = append(patterns, fmt.Sprintf("POST /service%d/items%d/{id}/parts", service, i))
		case 3:
			patterns = append(patterns, fmt.Sprintf("DELETE /service%d/items%d/{id}/parts/{part}", service, i))
		case 4:
			patterns = append(patterns, fmt.Sprintf("GET /service%d/files%d/{path...}", service, i))
		}
	}
	return patterns
}

// concrete returns the method and the path of a request that a pattern matches.
func concrete(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	path = strings.ReplaceAll(strings.ReplaceAll(path, "{", ""), "...}", "/file.txt")
	return method, strings.ReplaceAll(path, "}", "-1")
}

// fill returns a Router with the patterns, and a request for each.
func fill(patterns []string, handler sluice.RequestHandler) (*Router, []*sluice.RequestCtx) {
	r := &Router{}
	var requests []*sluice.RequestCtx
	for _, p := range patterns {
		r.Handle(p, handler)
		method, path := concrete(p)
		requests = append(requests, request(method, "api.example.com", path))
	}
	return r, requests
}

var tables = []struct {
	name     string
	patterns []string
}{
	{"GitHub", strings.Split(strings.TrimSpace(github), "\n")},
	{"10000", manyRoutes(10_000)},
}

// TestEachRouteOfLargeTables: each pattern gets its request, and no request allocates.
func TestEachRouteOfLargeTables(t *testing.T) {
	for _, table := range tables {
		got := ""
		r, requests := fill(table.patterns, func(ctx *sluice.RequestCtx) { got = Pattern(ctx) })
		for i, ctx := range requests {
			if r.Handler(ctx); got != table.patterns[i] {
				t.Fatalf("%s: %s is handled by %s, want %s", table.name, ctx.Path(), got, table.patterns[i])
			}
		}
	}
}

// TestAllocations: neither routing nor parameters allocate, with percent-encodings and hosts,
// too.
func TestAllocations(t *testing.T) {
	r, requests := fill(tables[0].patterns, func(ctx *sluice.RequestCtx) {
		if len(Param(ctx, "owner"))+len(Param(ctx, "path"))+len(Pattern(ctx)) == 0 {
			panic("no pattern")
		}
	})
	r.Handle("a.example.com/{path...}", func(ctx *sluice.RequestCtx) {
		if string(Param(ctx, "path")) != "b/é/d" {
			panic(Param(ctx, "path"))
		}
	})
	requests = append(requests, request("GET", "A.example.com:80", "/b/%c3%a9%2Fd"))
	for range 2 { // each ctx has its memory after the first
		for _, ctx := range requests {
			r.Handler(ctx)
		}
	}
	if n := testing.AllocsPerRun(20, func() {
		for _, ctx := range requests {
			ctx.ResetUserValues()
			r.Handler(ctx)
		}
	}); n != 0 {
		t.Errorf("%v allocations for %d requests", n, len(requests))
	}
}

func BenchmarkRouter(b *testing.B) {
	for _, table := range tables {
		b.Run(table.name, func(b *testing.B) {
			r, requests := fill(table.patterns, func(*sluice.RequestCtx) {})
			for _, ctx := range requests { // each has its memory then
				r.Handler(ctx)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				ctx := requests[i]
				ctx.ResetUserValues()
				r.Handler(ctx)
				if i++; i == len(requests) {
					i = 0
				}
			}
		})
	}
}
