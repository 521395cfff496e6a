// Package expvarhandler serves the variables of package expvar, and the gauges
// of the server's engine, as JSON.
package expvarhandler

import (
	"encoding/json"
	"expvar"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/sluicehttp/sluice"
)

// EngineVar is the name under which ExpvarHandler shows the sluice.EngineStats
// of the server that it runs on. If the program publishes a variable of this
// name, that variable is shown instead.
const EngineVar = "sluice.engine"

// ExpvarHandler responds with a JSON object of all variables of package expvar
// by name, and of the server's EngineStats as EngineVar.
//
// The query argument r is a regular expression of package regexp. It selects the
// variables whose names it matches. If it cannot be parsed, the response has
// status 400 and the reason.
//
// The variables reveal much about the process, for example its command line. Do
// not serve the handler on a public address without an access check.
//
// The first call publishes two variables: expvarHandlerCalls counts the calls,
// and expvarRegexpErrors counts the calls whose r could not be parsed.
func ExpvarHandler(ctx *sluice.RequestCtx) {
	count := published()
	count.calls.Add(1)
	isWanted, err := filterOf(ctx)
	if err != nil {
		count.errors.Add(1)
		ctx.Error("Cannot parse the argument r: "+err.Error(), sluice.StatusBadRequest)
		return
	}
	ctx.Error("", sluice.StatusOK) // an empty response, with the server's defaults
	ctx.SetContentType("application/json; charset=utf-8")
	w := objectWriter{ctx: ctx}
	expvar.Do(func(v expvar.KeyValue) {
		if isWanted(v.Key) {
			w.member(v.Key, v.Value.String())
		}
	})
	if expvar.Get(EngineVar) == nil && isWanted(EngineVar) {
		w.member(EngineVar, engineJSON(ctx.EngineStats()))
	}
	w.end()
}

// counters are the variables of the handler itself.
type counters struct{ calls, errors *expvar.Int }

// published returns the counters. The first call publishes them, not the start
// of the program: fasthttp's handler may be part of the same program, and panics
// at the start if the names are taken. Both then share the counters.
var published = sync.OnceValue(func() counters {
	return counters{counter("expvarHandlerCalls"), counter("expvarRegexpErrors")}
})

// counter returns the variable of that name, which it publishes if there is
// none. If a variable of another type has the name, it returns an unpublished
// one.
func counter(name string) *expvar.Int {
	switch v := expvar.Get(name).(type) {
	case nil:
		return expvar.NewInt(name)
	case *expvar.Int:
		return v
	}
	return new(expvar.Int)
}

// filterOf reports whether the query argument r selects a name.
func filterOf(ctx *sluice.RequestCtx) (isWanted func(name string) bool, err error) {
	pattern := ctx.QueryArgs().Peek("r")
	if len(pattern) == 0 {
		return func(string) bool { return true }, nil
	}
	r, err := regexp.Compile(string(pattern))
	if err != nil {
		return nil, err
	}
	return r.MatchString, nil
}

// engineJSON is the value of EngineVar.
func engineJSON(stats sluice.EngineStats) string {
	text, err := json.Marshal(stats)
	if err != nil { // cannot happen with numbers and a name
		return strconv.Quote(err.Error())
	}
	return string(text)
}

// objectWriter writes a JSON object with one member in each line.
type objectWriter struct {
	ctx     *sluice.RequestCtx
	members int
}

// member adds a member. value is JSON already.
func (w *objectWriter) member(name, value string) {
	start := "{\n"
	if w.members > 0 {
		start = ",\n"
	}
	w.members++
	key, _ := json.Marshal(name) // strings always can
	fmt.Fprintf(w.ctx, "%s\t%s: %s", start, key, value)
}

// end completes the object.
func (w *objectWriter) end() {
	if w.members == 0 {
		w.ctx.WriteString("{\n")
	}
	w.ctx.WriteString("\n}\n")
}
