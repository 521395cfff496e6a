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
// of the server that it answers for. A variable of this name that the program
// publishes itself is shown instead.
const EngineVar = "sluice.engine"

// ExpvarHandler answers with a JSON object of all variables that package expvar
// knows, by their names, and with the server's EngineStats as EngineVar.
//
// The query argument r, a regular expression of package regexp, selects the
// variables whose names it matches; one that cannot be parsed is answered with
// status 400 and the reason.
//
// The variables tell much about the process: its command line is one of them.
// The handler belongs on an address, or behind a check, that not everybody
// passes.
//
// Its first call publishes the variables expvarHandlerCalls, its calls, and
// expvarRegexpErrors, those of them whose r could not be parsed.
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

// published returns the counters. They are published when they are needed first,
// not when the program starts: fasthttp's handler, which panics where the names are
// taken, may be part of the program, and then they are shared.
var published = sync.OnceValue(func() counters {
	return counters{counter("expvarHandlerCalls"), counter("expvarRegexpErrors")}
})

// counter returns the variable of that name, or one that is not published if a
// variable of another type has it.
func counter(name string) *expvar.Int {
	switch v := expvar.Get(name).(type) {
	case nil:
		return expvar.NewInt(name)
	case *expvar.Int:
		return v
	}
	return new(expvar.Int)
}

// filterOf returns what the query argument r selects.
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
	if err != nil { // which numbers and a name cannot bring about
		return strconv.Quote(err.Error())
	}
	return string(text)
}

// objectWriter writes a JSON object, a member a line.
type objectWriter struct {
	ctx     *sluice.RequestCtx
	members int
}

// member adds one with a value that is JSON already.
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
