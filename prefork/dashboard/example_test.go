package dashboard_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/pprofhandler"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/prefork/dashboard"
)

// The master shows the page on an address of its own.
func Example() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, "hello") }}
	p := prefork.New(server)
	p.Admin = "127.0.0.1:9090"
	p.AdminHandler = dashboard.Handler(p)  // package prefork/dashboard
	p.Profiles = pprofhandler.PprofHandler // a pprof link for each worker; nil: none
	log.Fatal(p.ListenAndServe(":8080"))
}

// The lines of the guide are those of the example, which compiles.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	words := func(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }
	_, section, _ := strings.Cut(string(guide), "\n## A page\n```go\n")
	lines, _, isThere := strings.Cut(section, "```")
	if !isThere || !strings.Contains(words(source), words([]byte(lines))) {
		t.Errorf("the guide has %q", lines)
	}
}
