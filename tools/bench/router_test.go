package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	fasthttprouter "github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/router"
)

// routeTables returns the routes of GitHub's API, and those of many services.
func routeTables(b *testing.B) map[string][]string {
	github, err := os.ReadFile("../../router/testdata/github.txt")
	if err != nil {
		b.Skip("it runs in tools/bench only: ", err) // ratios and seeds list all benchmarks elsewhere
	}
	var many []string
	for i := range 10_000 {
		method := []string{"GET /", "GET /", "POST /", "DELETE /", "GET /"}[i%5]
		path := []string{"items%d", "items%d/{id}", "items%d/{id}/parts", "items%d/{id}/parts/{part}", "files%d/{path...}"}[i%5]
		many = append(many, method+fmt.Sprintf("service%d/"+path, i/10, i))
	}
	return map[string][]string{"GitHub": strings.Split(strings.TrimSpace(string(github)), "\n"), "10000": many}
}

// A routeRequest is for one route: its method, its path, and the name of its first parameter.
type routeRequest struct{ pattern, method, path, param string }

func routeRequests(patterns []string) (all []routeRequest) {
	for _, p := range patterns {
		r := routeRequest{pattern: p}
		r.method, r.path, _ = strings.Cut(p, " ")
		if _, after, ok := strings.Cut(p, "{"); ok {
			r.param, _, _ = strings.Cut(strings.ReplaceAll(after, "...", ""), "}")
		}
		r.path = strings.NewReplacer("{", "", "...}", "/file.txt", "}", "-1").Replace(r.path)
		all = append(all, r)
	}
	return all
}

// BenchmarkRouter routes requests in turn: one for each route, and for some of very many. All
// are those of one connection: method and path change. The handler reads the first parameter.
func BenchmarkRouter(b *testing.B) {
	for table, patterns := range routeTables(b) {
		requests := routeRequests(patterns)
		for name, serve := range map[string]func(b *testing.B, requests []routeRequest, got *int) []func(){
			"sluice": sluiceRoutes, "fasthttp": fasthttpRoutes, "ServeMux": muxRoutes,
		} {
			b.Run(table+"/"+name, func(b *testing.B) {
				var got, want int
				calls := serve(b, requests, &got)
				if len(calls) > 1000 {
					var some []func()
					for i := 0; i < len(calls); i += 21 { // not a multiple of the kinds of routes
						some = append(some, calls[i])
					}
					calls = some
				}
				for _, call := range calls { // there is memory for the longest path then
					call()
				}
				b.ReportAllocs()
				got = 0
				i := 0
				for b.Loop() {
					calls[i]()
					want++
					if i++; i == len(calls) {
						i = 0
					}
				}
				if got != want {
					b.Errorf("%d of %d requests were handled", got, want)
				}
			})
		}
	}
}

func sluiceRoutes(_ *testing.B, requests []routeRequest, got *int) (calls []func()) {
	r := &router.Router{}
	ctx := &sluice.RequestCtx{}
	ctx.Request.SetRequestURI("http://api.example.com/")
	for _, q := range requests {
		r.Handle(q.pattern, func(ctx *sluice.RequestCtx) {
			if q.param == "" || len(router.Param(ctx, q.param)) > 0 {
				*got++
			}
		})
		calls = append(calls, func() {
			ctx.ResetUserValues()
			ctx.Request.Header.SetMethod(q.method)
			ctx.URI().SetPath(q.path)
			r.Handler(ctx)
		})
	}
	return calls
}

func fasthttpRoutes(_ *testing.B, requests []routeRequest, got *int) (calls []func()) {
	r := fasthttprouter.New()
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.SetRequestURI("http://api.example.com/")
	for _, q := range requests {
		_, path, _ := strings.Cut(q.pattern, " ")
		r.Handle(q.method, strings.ReplaceAll(path, "...}", ":*}"), func(ctx *fasthttp.RequestCtx) {
			if value, _ := ctx.UserValue(q.param).(string); q.param == "" || value != "" {
				*got++
			}
		})
		calls = append(calls, func() {
			ctx.ResetUserValues()
			ctx.Request.Header.SetMethod(q.method)
			ctx.URI().SetPath(q.path)
			r.Handler(ctx)
		})
	}
	return calls
}

// A noResponse discards a response.
type noResponse struct{}

func (noResponse) Header() http.Header         { return http.Header{} }
func (noResponse) Write(p []byte) (int, error) { return len(p), nil }
func (noResponse) WriteHeader(int)             {}

func muxRoutes(b *testing.B, requests []routeRequest, got *int) (calls []func()) {
	mux := http.NewServeMux()
	req, err := http.NewRequest(http.MethodGet, "http://api.example.com/", nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, q := range requests {
		mux.HandleFunc(q.pattern, func(_ http.ResponseWriter, r *http.Request) {
			if q.param == "" || r.PathValue(q.param) != "" {
				*got++
			}
		})
		calls = append(calls, func() {
			req.Method, req.URL.Path = q.method, q.path
			mux.ServeHTTP(noResponse{}, req)
		})
	}
	return calls
}
