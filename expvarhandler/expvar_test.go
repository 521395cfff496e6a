package expvarhandler_test

import (
	"encoding/json"
	"expvar"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/expvarhandler"
)

// TestMain publishes the variables of the tests: that can be done once only.
func TestMain(m *testing.M) {
	expvar.NewInt("test.number").Set(7)
	expvar.NewString(`test."quoted"`).Set("a\nb")
	expvar.NewMap("test.map").Add("k", 1)
	m.Run()
}

// ask has ExpvarHandler answer for a path with a query.
func ask(t *testing.T, query string) (status int, vars map[string]any, body string) {
	t.Helper()
	var ctx sluice.RequestCtx
	ctx.Init(nil, nil, nil)
	ctx.Request.SetRequestURI("/debug/vars" + query)
	ctx.Response.Header.Set("X-Before", "1")
	ctx.SetBodyString("before")
	expvarhandler.ExpvarHandler(&ctx)
	body = string(ctx.Response.Body())
	if got := string(ctx.Response.Header.Peek("X-Before")); got != "" {
		t.Errorf("%s: the answer has parts of what was there before", query)
	}
	if ctx.Response.StatusCode() != sluice.StatusOK {
		return ctx.Response.StatusCode(), nil, body
	}
	if got := string(ctx.Response.Header.ContentType()); got != "application/json; charset=utf-8" {
		t.Errorf("%s: Content-Type is %q", query, got)
	}
	if err := json.Unmarshal([]byte(body), &vars); err != nil {
		t.Errorf("%s: %v in %q", query, err, body)
	}
	return sluice.StatusOK, vars, body
}

func TestAllVariables(t *testing.T) {
	_, vars, body := ask(t, "")
	for _, name := range []string{"cmdline", "memstats", "test.number", `test."quoted"`, "test.map", expvarhandler.EngineVar} {
		if _, ok := vars[name]; !ok {
			t.Errorf("no %s in %s", name, body)
		}
	}
	if vars["test.number"] != 7.0 || vars[`test."quoted"`] != "a\nb" {
		t.Errorf("values are %v and %q", vars["test.number"], vars[`test."quoted"`])
	}
	for name := range strings.SplitSeq("cmdline memstats sluice.engine", " ") {
		if strings.Count(body, `"`+name+`":`) != 1 {
			t.Errorf("%s is there %d times", name, strings.Count(body, `"`+name+`":`))
		}
	}
}

func TestSelection(t *testing.T) {
	for pattern, want := range map[string][]string{
		"^test[.]number$": {"test.number"},
		"^test[.]m|^cmd":  {"cmdline", "test.map"},
		"engine":          {"sluice.engine"},
		"no such thing":   {},
		"":                nil,
	} {
		_, vars, _ := ask(t, "?r="+url.QueryEscape(pattern))
		got := slices.Sorted(maps.Keys(vars))
		if want == nil && len(got) < 5 || want != nil && !slices.Equal(got, want) {
			t.Errorf("%q selects %q, want %q", pattern, got, want)
		}
	}
}

// The form is that of fasthttp: a member a line, after a tab.
func TestForm(t *testing.T) {
	expvar.NewInt("form.a").Set(1)
	expvar.NewString("form.b").Set("x")
	for pattern, want := range map[string]string{
		"^form":  "{\n\t\"form.a\": 1,\n\t\"form.b\": \"x\"\n}\n",
		"^none$": "{\n\n}\n",
	} {
		var ctx sluice.RequestCtx
		ctx.Init(nil, nil, nil)
		ctx.QueryArgs().Set("r", pattern)
		expvarhandler.ExpvarHandler(&ctx)
		if got := string(ctx.Response.Body()); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

func TestBadPattern(t *testing.T) {
	status, _, body := ask(t, "?r=%5B")
	if status != sluice.StatusBadRequest || !strings.Contains(body, "missing closing ]") {
		t.Errorf("answered %d %q", status, body)
	}
}

// TestCounters: the handler's own variables count its calls.
func TestCounters(t *testing.T) {
	count := func() (calls, errors float64) {
		_, vars, body := ask(t, "?r=^expvar")
		calls, isCalls := vars["expvarHandlerCalls"].(float64)
		errors, isErrors := vars["expvarRegexpErrors"].(float64)
		if !isCalls || !isErrors || len(vars) != 2 {
			t.Fatalf("%s", body)
		}
		return calls, errors
	}
	calls, errors := count()
	ask(t, "?r=%5B")
	if moreCalls, moreErrors := count(); moreCalls != calls+2 || moreErrors != errors+1 {
		t.Errorf("%v calls and %v errors became %v and %v", calls, errors, moreCalls, moreErrors)
	}
}

// TestEngineOfServer: the gauges are those of the server that answers.
func TestEngineOfServer(t *testing.T) {
	for _, engine := range []sluice.Engine{sluice.EngineAuto, sluice.EnginePerConn} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &sluice.Server{Handler: expvarhandler.ExpvarHandler, Engine: engine}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		resp, err := http.Get("http://" + ln.Addr().String() + "/?r=engine")
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Server"); got != "sluice" {
			t.Errorf("engine %v: the server is %q", engine, got)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var vars map[string]sluice.EngineStats
		if err := json.Unmarshal(body, &vars); err != nil {
			t.Errorf("%v in %q", err, body)
		}
		stats, want := vars[expvarhandler.EngineVar], s.EngineInfo(ln).Engine.String()
		if stats.Engine != want || stats.Connections != 1 || stats.Active != 1 || len(stats.Loops) == 0 {
			t.Errorf("engine %v: %+v, want one active connection of %s", engine, stats, want)
		}
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
