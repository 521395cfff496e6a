package fieldlist

import (
	"strings"
	"testing"
)

func TestParsePriority(t *testing.T) {
	for value, want := range map[string]Priority{
		// RFC 9218 section 4
		"":              {3, false},
		"  ":            {3, false},
		"u=5, i":        {5, true},
		"u=0":           {0, false},
		"u=7,i=?1":      {7, true},
		"i=?0":          {3, false},
		"i, i=?0":       {3, false},
		" u=1 \t,\ti  ": {1, true},
		"u=1, u=2":      {2, false},
		"u=8, i":        {3, true},
		"u=-1":          {3, false},
		"u=1, u=9":      {3, false},
		"u=1.0":         {3, false},
		"u=\"1\", i":    {3, true},
		"u, i=1":        {3, false},
		"u=?1":          {3, false},
		"i=token":       {3, false},
		// RFC 8941: members and parameters of all types
		"u=2;a;b=1;c=\"\\\"\\\\\";*d.-_=:YWI=:, x=(1 \"a\" b;c=?0  ), y=-1.234, z=*/:~, i": {2, true},
		"x=(), x=( ), u=4":     {4, false},
		"x=999999999999999, i": {3, true},
		"x=123456789012.123,i": {3, true},
		// no dictionary
		"U=1, i":                  {3, false},
		"u=1,":                    {3, false},
		",u=1":                    {3, false},
		"u=1,,i":                  {3, false},
		"u=1 i":                   {3, false},
		"u =1":                    {3, false},
		"u= 1":                    {3, false},
		"u=":                      {3, false},
		"u=1;":                    {3, false},
		"u=1;A":                   {3, false},
		"u=1;a=":                  {3, false},
		"u=1, x=?2":               {3, false},
		"u=1, x=?":                {3, false},
		"u=1, x=\"a":              {3, false},
		"u=1, x=\"\\a\"":          {3, false},
		"u=1, x=\"\x7f\"":         {3, false},
		"u=1, x=:YWI":             {3, false},
		"u=1, x=:Y!:":             {3, false},
		"u=1, x=(1":               {3, false},
		"u=1, x=(1\"a\")":         {3, false},
		"u=1, x=((1))":            {3, false},
		"u=1, x=(1;)":             {3, false},
		"u=1, x=-":                {3, false},
		"u=1, x=1.":               {3, false},
		"u=1, x=1.2345":           {3, false},
		"u=1, x=1234567890123.1":  {3, false},
		"u=1, x=1234567890123456": {3, false},
		"u=1, x=\xff":             {3, false},
		"\tu=1":                   {3, false},
	} {
		if got := ParsePriority([]byte(value), DefaultPriority()); got != want {
			t.Errorf("%q: %+v, want %+v", value, got, want)
		}
	}
}

// RFC 9218 section 8: what a response leaves out stays as the request has it.
func TestPriorityOfResponse(t *testing.T) {
	base := Priority{5, true}
	for value, want := range map[string]Priority{
		"": base, "u=1": {1, true}, "i=?0": {5, false}, "u=8": base, "?": base, "i=7": base,
	} {
		if got := ParsePriority([]byte(value), base); got != want {
			t.Errorf("%q: %+v, want %+v", value, got, want)
		}
	}
}

func TestAppendPriority(t *testing.T) {
	for urgency := range uint8(8) {
		for _, isIncremental := range []bool{false, true} {
			p := Priority{urgency, isIncremental}
			value := AppendPriority(nil, p)
			if got := ParsePriority(value, DefaultPriority()); got != p || len(value) > 16 {
				t.Errorf("%+v as %q is %+v", p, value, got)
			}
		}
	}
}

func TestParsePriorityAllocatesNothing(t *testing.T) {
	in := []byte("u=2;a=\"b\", x=(1 2), i")
	if n := testing.AllocsPerRun(100, func() { ParsePriority(in, DefaultPriority()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParsePriority: an unknown member before a dictionary changes nothing, and what is
// appended is read again.
func FuzzParsePriority(f *testing.F) {
	for _, s := range []string{"u=5, i", "u=2;a;b=1, x=(1 \"a\" b;c=?0  ), i", "x=:YWI=:;y=\"\\\"\"", "u=1.5, i=?0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		got := ParsePriority(value, DefaultPriority())
		if got.Urgency > LowestUrgency {
			t.Fatalf("%+v", got)
		}
		if again := ParsePriority(AppendPriority(nil, got), DefaultPriority()); again != got {
			t.Fatalf("%+v became %+v", got, again)
		}
		alone := strings.TrimLeft(string(value), " ")
		if alone == "" || alone[0] == '\t' { // no comma may end a dictionary; a tab may follow one
			return
		}
		if more := ParsePriority([]byte("zz=1, "+alone), DefaultPriority()); more != got {
			t.Fatalf("after another member: %+v, alone %+v", more, got)
		}
	})
}

// RFC 9218 section 7.1: the last priority of a stream that is not open yet counts. What is
// kept is bounded.
func TestEarlyPriorities(t *testing.T) {
	var e EarlyPriorities[uint64]
	if _, ok := e.Take(1); ok {
		t.Error("the zero value has a priority")
	}
	e.Keep(5, Priority{Urgency: 1})
	e.Keep(3, Priority{Urgency: 2})
	e.Keep(7, Priority{Urgency: 4})
	e.Keep(5, Priority{Urgency: 0, IsIncremental: true})
	if p, ok := e.Take(5); !ok || p != (Priority{IsIncremental: true}) {
		t.Errorf("stream 5 has %v, %v", p, ok)
	}
	if _, ok := e.Take(3); ok || e.count != 1 {
		t.Errorf("%d priorities are kept after stream 5 was opened, want that of 7", e.count)
	}
	for id := uint64(9); id < 50_000; id += 2 {
		e.Keep(id, Priority{})
	}
	if p, ok := e.Take(7); !ok || p.Urgency != 4 || e.count != maxEarly-1 {
		t.Errorf("stream 7 has %v, %v; %d others are kept", p, ok, e.count)
	}
	if _, ok := e.Take(50_001); ok || e.count != 0 {
		t.Error("priorities of streams that cannot be opened any more are kept")
	}
}
