package field

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

func TestNoTwoNamesShareASeat(t *testing.T) {
	taken := map[uint64]ID{}
	for id := Other + 1; id < numIDs; id++ {
		seat := words(canonical[id]).seat()
		if other, ok := taken[seat]; ok {
			t.Errorf("%s and %s share seat %d: change the factor", canonical[id], canonical[other], seat)
		}
		taken[seat] = id
	}
}

func TestLookup(t *testing.T) {
	for id := Other + 1; id < numIDs; id++ {
		name := string(canonical[id])
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := Lookup(spelling); got != id {
				t.Errorf("Lookup(%q) = %d, want %d", spelling, got, id)
			}
		}
		for _, near := range []string{name + "x", name[1:], "x" + name[1:]} {
			if got := Lookup(near); got != Other && !strings.EqualFold(near, string(canonical[got])) {
				t.Errorf("Lookup(%q) = %s", near, canonical[got])
			}
		}
		if !IsNormalized(canonical[id]) {
			t.Errorf("%s is not in normalised spelling", name)
		}
	}
	if Lookup("") != Other || Lookup("X-Unknown") != Other {
		t.Error("unknown names must be Other")
	}
}

// Lookup finds what a comparison of all known names finds, for names that differ from
// one in any byte.
func TestLookupComparesEveryByte(t *testing.T) {
	slow := func(name string) ID {
		for id := Other + 1; id < numIDs; id++ {
			if ascii.EqualFold(name, canonical[id]) {
				return id
			}
		}
		return Other
	}
	for id := Other + 1; id < numIDs; id++ {
		for at := range canonical[id] {
			for c := range 256 {
				name := bytes.Clone(canonical[id])
				name[at] = byte(c)
				if got, want := Lookup(name), slow(string(name)); got != want {
					t.Errorf("Lookup(%q) = %d, want %d", name, got, want)
				}
			}
		}
	}
}

func FuzzLookup(f *testing.F) {
	for id := range numIDs {
		f.Add(canonical[id])
	}
	f.Fuzz(func(t *testing.T, name []byte) {
		id := Lookup(name)
		if id != Lookup(string(name)) || id != Other && !ascii.EqualFold(name, canonical[id]) {
			t.Fatalf("Lookup(%q) = %d", name, id)
		}
		for known := Other + 1; known < numIDs; known++ {
			if ascii.EqualFold(name, canonical[known]) && id != known {
				t.Fatalf("Lookup(%q) = %d, want %d", name, id, known)
			}
		}
	})
}

// dump returns a table as "Name=value" words.
func dump(t *Table) string {
	var b strings.Builder
	for i := range t.Len() {
		fmt.Fprintf(&b, "%s=%s ", t.Name(i), t.Value(i))
	}
	return strings.TrimSpace(b.String())
}

func add(t *Table, name, value string) { t.Add(Lookup(name), []byte(name), []byte(value)) }

func TestTableKeepsOrderAndNormalises(t *testing.T) {
	var tab Table
	add(&tab, "host", "a")
	add(&tab, "x-one", "1")
	add(&tab, "X-ONE", "2")
	add(&tab, "HOST", "b")
	if got, want := dump(&tab), "Host=a X-One=1 X-One=2 Host=b"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if got := string(tab.Get(Host)); got != "a" {
		t.Errorf("Get(Host) = %q", got)
	}
	if i := tab.Find(Other, []byte("X-One"), 2); i != 2 {
		t.Errorf("second X-One at %d", i)
	}
	if i := tab.Find(Host, []byte("host"), 1); i != 3 {
		t.Errorf("second Host at %d", i)
	}
	tab.DelAt(0)
	if got := string(tab.Get(Host)); got != "b" {
		t.Errorf("after DelAt Get(Host) = %q", got)
	}
	tab.Del(Other, []byte("x-one"))
	if got := dump(&tab); got != "Host=b" {
		t.Errorf("after Del: %s", got)
	}
	tab.DelID(Host)
	if tab.Len() != 0 || tab.Get(Host) != nil {
		t.Error("table is not empty")
	}
}

func TestTableKeepNames(t *testing.T) {
	tab := Table{KeepNames: true}
	add(&tab, "hOST", "a")
	add(&tab, "x-one", "1")
	add(&tab, "X-One", "2")
	if got, want := dump(&tab), "hOST=a x-one=1 X-One=2"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if i := tab.Find(Other, []byte("X-One"), 0); i != 2 {
		t.Errorf("X-One at %d", i)
	}
	if i := tab.Find(Host, []byte("Host"), 0); i != -1 {
		t.Errorf("Host found at %d though spelt hOST", i)
	}
	tab.Del(Other, []byte("x-one"))
	if got, want := dump(&tab), "hOST=a X-One=2"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestKeepNamesIsAPropertyOfTheField(t *testing.T) {
	var tab Table
	add(&tab, "x-one", "1")
	add(&tab, "referer", "r")
	tab.KeepNames = true
	add(&tab, "x-two", "2")
	add(&tab, "accept", "a")
	if got, want := dump(&tab), "X-One=1 Referer=r x-two=2 accept=a"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	for _, c := range []struct {
		keep bool
		name string
		at   int
	}{
		{true, "x-one", -1}, {true, "X-One", 0}, {true, "referer", -1}, {true, "Referer", 1},
		{true, "x-two", 2}, {true, "X-Two", -1}, {true, "accept", 3}, {true, "Accept", -1},
		{false, "x-one", 0}, {false, "X-One", 0}, {false, "referer", 1},
		{false, "x-two", 2}, {false, "X-Two", -1}, {false, "Accept", 3},
	} {
		tab.KeepNames = c.keep
		if got := tab.Find(Lookup(c.name), []byte(c.name), 0); got != c.at {
			t.Errorf("KeepNames %v: %s at %d, want %d", c.keep, c.name, got, c.at)
		}
	}
}

func TestAddExact(t *testing.T) {
	var tab Table
	tab.AddExact([]byte("referer"), []byte("r"))
	tab.AddExact([]byte("x-One"), []byte("1"))
	if got, want := dump(&tab), "referer=r x-One=1"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if tab.Get(Referer) != nil || tab.Find(Other, []byte("X-One"), 0) != -1 || tab.Find(Other, []byte("x-One"), 0) != 1 {
		t.Error("an exact name is found by another spelling")
	}
	var other Table
	tab.CopyTo(&other)
	if got, want := dump(&other), "referer=r x-One=1"; got != want {
		t.Fatalf("copy has %s, want %s", got, want)
	}
}

func TestRawHeadIsNeverWritten(t *testing.T) {
	var tab Table
	raw := "x-a: 12345\r\n"
	tab.Append([]byte(raw))
	tab.PushParsed(Other, 0, 3, 5, 10)
	tab.Seal(len(raw))
	tab.SetValue(0, []byte("9"))
	if got := dump(&tab); got != "X-A=9" {
		t.Fatal(got)
	}
	if got := string(tab.Raw()[:len(raw)]); got != raw {
		t.Fatalf("raw head became %q", got)
	}
}

func TestReuseWithoutResetDoesNotGrowForEver(t *testing.T) {
	var tab Table
	add(&tab, "X-Keep", "kept")
	for i := range 20_000 {
		name := fmt.Sprintf("X-%d", i)
		add(&tab, name, strings.Repeat("v", i%100))
		tab.Del(Other, []byte(name))
		tab.Set(Referer, []byte(strings.Repeat("r", i%300)))
	}
	if n := cap(tab.buf); n > 4*compactAbove {
		t.Errorf("buffer grew to %d bytes", n)
	}
	if got := string(tab.Value(0)); got != "kept" {
		t.Errorf("X-Keep = %q", got)
	}
}

func TestCopyTo(t *testing.T) {
	var a, b Table
	add(&a, "Host", "a")
	add(&b, "Server", "old")
	a.CopyTo(&b)
	a.Set(Host, []byte("changed"))
	if got := dump(&b); got != "Host=a" || b.Get(Server) != nil {
		t.Fatal(got)
	}
	add(&a, "Host", "again")
	a.CopyTo(&b)
	if got := b.Find(Host, nil, 1); got != 1 {
		t.Errorf("the copy's second Host is at %d", got)
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "A", "content-TYPE": "Content-Type", "x--y": "X--Y",
		"-a-": "-A-", "with space": "with space", "ETAG": "Etag",
	} {
		got := []byte(in)
		Normalize(got)
		if string(got) != want {
			t.Errorf("Normalize(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	var tab Table
	name, value := []byte("X-Custom"), []byte("some value")
	n := testing.AllocsPerRun(200, func() {
		tab.Reset()
		tab.Set(Host, value)
		tab.Add(Other, name, value)
		tab.Find(Other, name, 0)
		tab.Get(Host)
	})
	if n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	name := []byte("Accept-Encoding")
	for b.Loop() {
		Lookup(name)
	}
}

// TestKeepLast: only the last field of each given name stays, and the others in their
// order. The table still finds all of them.
func TestKeepLast(t *testing.T) {
	for in, want := range map[string]string{
		"Server=1 X=1 Server=2 Accept=1 Accept=2 server=3": "X=1 Accept=1 Accept=2 Server=3",
		"Server=1": "Server=1", "X=1 X=2": "X=1 X=2", "": "",
		"Server=1 Content-Type=a Server=2 Content-Type=b": "Server=2 Content-Type=b",
	} {
		var table Table
		for range 2 { // the second time the table is reused
			table.Reset()
			for _, pair := range strings.Fields(in) {
				name, value, _ := strings.Cut(pair, "=")
				table.Add(Lookup(name), []byte(name), []byte(value))
			}
			table.KeepLast(1<<Server | 1<<ContentType)
			var got []string
			for i := range table.Len() {
				got = append(got, fmt.Sprintf("%s=%s", table.Name(i), table.Value(i)))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%q: %q, want %q", in, got, want)
			}
			if i := table.Index(Server); i >= 0 && string(table.Name(i)) != "Server" {
				t.Errorf("%q: Server is said to be field %d", in, i)
			}
		}
	}
}

// TestRawValue: a field's value is raw until it is set, also after one that was not received.
func TestRawValue(t *testing.T) {
	var tab Table
	raw := "Host: h\r\nServer: s\r\n"
	tab.SetRaw(append(tab.Raw(), raw...))
	tab.PushParsed(Host, 0, 4, 6, 7)
	tab.PushParsed(Server, 9, 15, 17, 18)
	tab.Seal(len(raw))
	tab.Add(Referer, nil, []byte("r"))
	check := func(id ID, want string, isRaw bool) {
		if got, ok := tab.RawValue(id); string(got) != want || ok != isRaw {
			t.Errorf("%s: %q, raw %v", id.Canonical(), got, ok)
		}
	}
	check(Host, "h", true)
	check(Server, "s", true)
	check(Referer, "r", false)
	check(Accept, "", true)
	tab.Set(Server, []byte("t"))
	check(Host, "h", true)
	check(Server, "t", false)
	if dump(&tab) != "Host=h Server=t Referer=r" || tab.ID(1) != Server {
		t.Error(dump(&tab))
	}
}

// TestHeldBytes: HeldBytes knows the size of an entry.
func TestHeldBytes(t *testing.T) {
	tab := Table{buf: make([]byte, 1, 100), fields: make([]entry, 1, 10)}
	if got, want := tab.HeldBytes(), 100+10*int(unsafe.Sizeof(entry{})); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

// Recall adds what Remember has copied, at the positions to which Shift has moved it.
func TestRememberAndRecall(t *testing.T) {
	const lines = "Host: a\r\nX: b\r\nhost: c\r\n"
	parsed := func(start string) *Table {
		tab := new(Table)
		tab.Append([]byte(start + lines))
		n := len(start)
		tab.PushParsed(Host, n, n+4, n+6, n+7)
		tab.PushParsed(Other, n+9, n+10, n+12, n+13)
		tab.PushParsed(Host, n+15, n+19, n+21, n+22)
		tab.Seal(n + len(lines))
		return tab
	}
	from := parsed("GET /")
	if got := from.Start(1); got != len("GET /")+9 {
		t.Fatalf("field 1 starts at %d", got)
	}
	var known, all Table
	known.Remember(from, 1, 5, 5+9)
	all.Remember(from, 3, 5, 5+len(lines))
	if got := string(known.Raw()); got != "Host: a\r\n" || known.Len() != 1 || known.FindID(Host, 1) >= 0 {
		t.Fatalf("%q is remembered, with %d fields", got, known.Len())
	}
	copy(from.Raw(), "overwritten")
	at := 0
	for _, start := range []string{"", "GET /", "GET /a/longer/one"} {
		want, got := parsed(start), new(Table)
		got.Append([]byte(start + lines))
		all.Shift(len(start) - at)
		at = len(start)
		got.Recall(&all)
		got.Seal(len(start) + len(lines))
		if dump(got) != dump(want) || got.Index(Host) != 0 || got.FindID(Host, 1) != 2 {
			t.Errorf("after %q: %s, want %s", start, dump(got), dump(want))
		}
		if host, isRaw := got.RawValue(Host); string(host) != "a" || !isRaw {
			t.Errorf("after %q: host %q, raw %v", start, host, isRaw)
		}
	}
}

// TestCopyWith: the copy is the table of the same fields around another text.
func TestCopyWith(t *testing.T) {
	parsed := func(text string) *Table {
		var p Table
		p.Append([]byte("x-firstone" + text + "agentx-lasttwo"))
		p.PushParsed(Other, 0, 7, 7, 10)
		end := 10 + len(text)
		p.PushParsed(UserAgent, end, end, end, end+5)
		p.PushParsed(Other, end+5, end+11, end+11, end+14)
		p.Seal(len(p.Raw()))
		return &p
	}
	var dst Table
	for _, text := range []string{"/path", "/", "/a longer path", ""} {
		from := parsed("/path")
		from.CopyWith(&dst, 10, 15, []byte(text))
		dst.owner = Owner{}
		want := parsed(text)
		want.owner = Owner{}
		if !reflect.DeepEqual(&dst, want) {
			t.Errorf("%q: %+v, want %+v", text, dst, want)
		}
	}
}

// TestEmptyValuesAreNotNil: nil stands for a field that is not there, whatever memory the table had.
func TestEmptyValuesAreNotNil(t *testing.T) {
	full := func() *Table {
		var tab Table
		tab.Set(Host, []byte("h"))
		return &tab
	}
	for before, tab := range map[string]func() *Table{
		"new":   func() *Table { return new(Table) },
		"reset": func() *Table { tab := new(Table); tab.Reset(); return tab },
		"emptied": func() *Table {
			tab := full()
			tab.Reset()
			return tab
		},
		"shrunk": func() *Table {
			tab := full()
			tab.Reset()
			tab.Shrink(0, 0)
			return tab
		},
		"copy of a new one":     func() *Table { tab := *new(Table); return &tab },
		"copy of an empty one":  func() *Table { from := full(); from.Reset(); tab := *from; return &tab },
		"reset copy":            func() *Table { tab := *full(); tab.Reset(); return &tab },
		"target of CopyTo":      func() *Table { tab := new(Table); new(Table).CopyTo(tab); return tab },
		"full target of CopyTo": func() *Table { tab := full(); new(Table).CopyTo(tab); return tab },
	} {
		for how, set := range map[string]func(*Table){
			"Set":      func(tab *Table) { tab.Set(Server, nil) },
			"Add":      func(tab *Table) { tab.Add(Server, canonical[Server], nil) },
			"Replace":  func(tab *Table) { tab.Replace(Server, nil) },
			"SetValue": func(tab *Table) { tab.Set(Server, []byte("v")); tab.SetValue(0, nil) },
		} {
			tab := tab()
			set(tab)
			var dst Table
			tab.CopyTo(&dst)
			if tab.Get(Server) == nil || tab.Value(0) == nil || dst.Get(Server) == nil {
				t.Errorf("%s, %s: nil", before, how)
			}
		}
	}
}

// TestReceivedHeadHasAnOwner: a table that was never reset owns the head that it has received,
// so that a copy by assignment takes memory of its own before it changes.
func TestReceivedHeadHasAnOwner(t *testing.T) {
	var received Table
	head := []byte("Host: a\r\n\r\n")
	received.Append(append(head, make([]byte, 64)...))
	received.PushParsed(Host, 0, 4, 6, 7)
	received.Seal(len(head))
	dup := received
	dup.Add(Other, []byte("X"), []byte("of the copy"))
	received.Add(Other, []byte("Y"), []byte("of the original"))
	if string(dup.Value(1)) != "of the copy" || string(received.Value(1)) != "of the original" {
		t.Errorf("copy: %q, original: %q", dup.Value(1), received.Value(1))
	}
}

// TestPartOfAHeadIsHeld: memory that has a part of a head counts after a reset, so that a server
// notices how much a burst of them took.
func TestPartOfAHeadIsHeld(t *testing.T) {
	var tab Table
	tab.Append(make([]byte, 1000))
	tab.Reset()
	if n := tab.HeldBytes(); n < 1000 {
		t.Errorf("%d bytes", n)
	}
}

// TestFilter: the fields that stay keep their order, and are found.
func TestFilter(t *testing.T) {
	for _, keepsNames := range []bool{false, true} {
		table := Table{KeepNames: keepsNames}
		for _, name := range []string{"A", "Host", "B", "Via", "host", "Date", "B"} {
			table.Add(Lookup(name), []byte(name), []byte(name))
		}
		table.Filter(1<<Host|1<<Cookie, func(name []byte) bool { return string(name) == "B" })
		var names []string
		for i := range table.Len() {
			names = append(names, string(table.Name(i)))
		}
		if got := strings.Join(names, " "); got != "A Via Date" || table.Index(Host) >= 0 || table.Index(Date) != 2 {
			t.Errorf("%s, Date at %d", got, table.Index(Date))
		}
	}
}

// TestAppendLines: a line is the name, a colon, a space, the value and the end, with room in dst and
// without.
func TestAppendLines(t *testing.T) {
	long := strings.Repeat("v", 100)
	for _, keepsNames := range []bool{false, true} {
		table, want := Table{KeepNames: keepsNames}, "x"
		for id := Other + 1; id < numIDs; id++ {
			name := string(id.Canonical())
			table.Add(id, []byte(name), []byte(long[id:]))
			if id != Host {
				want += name + ": " + long[id:] + "\r\n"
			}
			if got := string(id.AppendLine([]byte("x"), []byte(long))); got != "x"+name+": "+long+"\r\n" {
				t.Errorf("%q", got)
			}
		}
		table.AddExact([]byte("exact"), nil)
		table.Add(Other, []byte("oTher"), []byte(long))
		other := "Other"
		if keepsNames {
			other = "oTher"
		}
		want += "exact: \r\n" + other + ": " + long + "\r\n"
		for _, room := range []int{1, len(want), 1 << 16} {
			if got := string(table.AppendLines(append(make([]byte, 0, room), 'x'), 1<<Host)); got != want {
				t.Errorf("with room for %d: %q, want %q", room, got, want)
			}
		}
	}
}
