package difftest

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	randomFor  = flag.Duration("random.for", 0, "how long TestRandomCalls looks for differences; 0 is a number of scripts")
	randomSeed = flag.Uint64("random.seed", 1, "the seed of TestRandomCalls")
)

// TestRandomCalls makes random scripts of calls and runs them on both
// libraries. What can be seen afterwards is equal, but for randomDifferences.
// A script with another difference is printed with as few calls as show it: it
// shows a bug, or belongs into the list.
//
//	go -C tools/interop test ./difftest -run TestRandomCalls -random.for 1h -random.seed 2 -timeout 2h
func TestRandomCalls(t *testing.T) {
	all := append(subjects(), servedSubjects()...)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(*randomSeed, 0))
			end := time.Now().Add(*randomFor / time.Duration(len(all)))
			known, found := map[string]int{}, map[string]bool{}
			scripts := 0
			for ; scripts < 2000 || time.Now().Before(end); scripts++ {
				script := s.random(random)
				for len(s.differences(script)) > 0 {
					short := s.shortest(script)
					differences := s.differences(short)
					text := strings.Join(short, " | ")
					if row := rowOf(s.name, text, differences); row != "" {
						known[row]++
					} else if len(found) < 20 && !found[calls(short)] {
						found[calls(short)] = true
						t.Errorf("%s\n%s", text, strings.Join(differences, "\n"))
					}
					script = without(script, short[len(short)-1]) // there may be another one
				}
			}
			t.Logf("%d scripts; known differences: %v", scripts, known)
		})
	}
}

// without is the script without its last call of that text.
func without(script []string, call string) []string {
	for i := len(script) - 1; i >= 0; i-- {
		if script[i] == call {
			return append(append([]string{}, script[:i]...), script[i+1:]...)
		}
	}
	panic("no such call")
}

// calls are a script's calls without their arguments.
func calls(script []string) string {
	var names []string
	for _, step := range script {
		name, _, _ := strings.Cut(step, "(")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// rowOf returns which row explains the differences of a script, "" if none.
func rowOf(subject, script string, differences []string) string {
	text := subject + " " + script
	for _, d := range randomDifferences {
		if !regexp.MustCompile(d.script).MatchString(text) {
			continue
		}
		if d.seen == "" {
			return d.row
		}
		only := regexp.MustCompile(d.seen)
		all := true
		for _, difference := range differences {
			all = all && only.MatchString(difference)
		}
		if all {
			return d.row
		}
	}
	return ""
}

// A subject is a type that both libraries have.
type subject struct {
	name  string
	fresh func() (theirs, ours any)
	// calls are templates: each name with a $ is one of words, with an @ some of
	// pieces together.
	calls  []string
	words  map[string][]string
	pieces map[string][]string
	// seen describes all that can be seen of a value, by name.
	seen func(v any) observations
}

// observations are what can be seen of a value: names and texts by turns.
type observations []string

func (o *observations) add(name string, values ...any) {
	var texts []string
	for _, v := range values {
		if bytes, ok := v.([]byte); ok {
			v = string(bytes)
		}
		switch v.(type) {
		case string, [][]byte:
			texts = append(texts, fmt.Sprintf("%q", v))
		default:
			texts = append(texts, fmt.Sprint(v))
		}
	}
	*o = append(*o, name, today.ReplaceAllString(strings.Join(texts, " "), "now"))
}

// today is a date that a message got while the test ran.
var today = regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20[2-9]\d \d\d:\d\d:\d\d GMT`)

// random makes a script of up to 8 calls.
func (s *subject) random(random *rand.Rand) []string {
	var script []string
	for range 1 + random.IntN(8) {
		call := s.calls[random.IntN(len(s.calls))]
		script = append(script, wordPattern.ReplaceAllStringFunc(call, func(name string) string {
			if words := s.words[name[1:]]; name[0] == '$' {
				return words[random.IntN(len(words))]
			}
			var text string
			for pieces := s.pieces[name[1:]]; random.IntN(6) > 0; {
				text += pieces[random.IntN(len(pieces))]
			}
			return strconv.Quote(text)
		}))
	}
	return script
}

var wordPattern = regexp.MustCompile(`[$@][a-z]+`)

// differences runs a script on both sides and describes what differs. The order
// of fields is not compared after a deletion (H11).
func (s *subject) differences(script []string) []string {
	theirs, ours := s.fresh()
	want, got := s.run(theirs, script), s.run(ours, script)
	deletes := deletion.MatchString(s.name + strings.Join(script, " "))
	var all []string
	for i := 0; i < len(want) || i < len(got); i += 2 {
		if i >= len(want) || i >= len(got) {
			return append(all, "panic: one side ended here")
		}
		if want[i+1] != got[i+1] && !(deletes && sortedWords(want[i+1]) == sortedWords(got[i+1])) {
			all = append(all, fmt.Sprintf("%s: fasthttp %s\n%*s  sluice   %s", want[i], want[i+1], len(want[i]), "", got[i+1]))
		}
	}
	return all
}

var deletion = regexp.MustCompile(`Del|ConnectionClose|SetContentLength|onnection[,:]|HTTP/1.0`)

// run makes the calls of a script.
func (s *subject) run(v any, script []string) (o observations) {
	defer func() {
		if p := recover(); p != nil {
			o.add("panic", "panic")
		}
	}()
	if server, ok := v.(*served); ok {
		wire := server.wire(func(ctx any) { o = append(o, perform(&ctx, script)...) })
		o.add("wire", wire)
		return o
	}
	o = perform(&v, script)
	return append(o, s.seen(v)...)
}

// perform makes the calls of a script. It ends at a panic.
func perform(v *any, script []string) (o observations) {
	defer func() {
		if p := recover(); p != nil {
			o.add("panic", "panic")
		}
	}()
	for i, step := range script {
		var said string
		said, *v = performOne(*v, step)
		o.add(fmt.Sprintf("call %d", i+1), said)
	}
	return o
}

// performOne makes one call. CopyTo() goes on with a copy, Again() with what was
// written and read back.
func performOne(v any, step string) (said string, next any) {
	on := reflect.ValueOf(v)
	switch step {
	case "CopyTo()":
		next := reflect.New(on.Type().Elem())
		on.MethodByName("CopyTo").Call([]reflect.Value{next})
		return "", next.Interface()
	case "Again()":
		return again(on)
	}
	for {
		part, rest, more := strings.Cut(step, ".")
		if !more || strings.Contains(part, "(") && !strings.HasSuffix(part, "()") {
			return call(on.Interface(), step), v
		}
		step = rest
		if method, ok := strings.CutSuffix(part, "()"); ok {
			on = on.MethodByName(method).Call(nil)[0]
		} else if on = on.Elem().FieldByName(part); strings.HasPrefix(rest, "=") {
			on.Set(argument(on.Type(), rest[1:]))
			return "", v
		} else {
			on = on.Addr()
		}
	}
}

// again writes a message, and reads it into a new one.
func again(on reflect.Value) (said string, next any) {
	var wire bytes.Buffer
	next = reflect.New(on.Type().Elem()).Interface()
	if _, err := on.Interface().(io.WriterTo).WriteTo(&wire); err != nil {
		return "not written", next
	}
	err := next.(interface{ Read(*bufio.Reader) error }).Read(bufio.NewReader(&wire))
	return fmt.Sprint("read: ", err == nil), next
}

// shortest removes calls as long as there is a difference.
func (s *subject) shortest(script []string) []string {
	for removed := true; removed; {
		removed = false
		for i := range script {
			shorter := append(append([]string{}, script[:i]...), script[i+1:]...)
			if len(s.differences(shorter)) > 0 {
				script, removed = shorter, true
				break
			}
		}
	}
	return script
}

var wordEnd = regexp.MustCompile(`\\r\\n|[\s\[\]";]+`)

// sortedWords is the text without its order.
func sortedWords(s string) string {
	words := wordEnd.Split(s, -1)
	slices.Sort(words)
	return strings.Join(words, " ")
}
