package fasthttpadaptor_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/router"
	"github.com/sluicehttp/sluice/sluicetest"
)

// A handler of net/http sees the route of package router, and of a ServeMux below it.
func TestRoutes(t *testing.T) {
	show := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %q %q %q", r.Pattern, r.PathValue("id"), r.PathValue("rest"), r.PathValue("none"))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /mux/{id}/{own}", show)
	r := &router.Router{}
	r.Handle("GET /users/{id}/{rest...}", fasthttpadaptor.NewFastHTTPHandlerFunc(show))
	r.Handle("/mux/{rest...}", fasthttpadaptor.NewFastHTTPHandler(mux))
	r.NotFound = fasthttpadaptor.NewFastHTTPHandlerFunc(show)
	for path, want := range map[string]string{
		"/users/a%2Fb/c/d": `GET /users/{id}/{rest...} "a/b" "c/d" ""`,
		"/mux/7/x":         `GET /mux/{id}/{own} "7" "7/x" ""`,
		"/none":            ` "" "" ""`,
	} {
		if got := string(sluicetest.Record(t, r.Handler, sluicetest.NewRequest("GET", path, "")).Body()); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
