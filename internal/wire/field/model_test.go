package field

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// A modelField is a field in the simplest form.
type modelField struct {
	id          ID
	name, value string
	isExact     bool
}

// A model is a slow Table: a list.
type model struct {
	fields    []modelField
	keepNames bool
}

func (m *model) add(name, value string) {
	f := modelField{Lookup(name), name, value, m.keepNames}
	if !m.keepNames {
		f.name = http.CanonicalHeaderKey(name)
	}
	m.fields = append(m.fields, f)
}

func (m *model) isSame(f modelField, name string) bool {
	id := Lookup(name)
	switch {
	case id != f.id:
		return false
	case id != Other && !m.keepNames:
		return true
	case f.isExact:
		return f.name == name
	}
	return strings.EqualFold(f.name, name) && (!m.keepNames || name == http.CanonicalHeaderKey(name))
}

func (m *model) find(name string, from int) int {
	for i := from; i < len(m.fields); i++ {
		if m.isSame(m.fields[i], name) {
			return i
		}
	}
	return -1
}

func (m *model) findID(id ID, from int) int {
	for i := from; i < len(m.fields); i++ {
		if m.fields[i].id == id {
			return i
		}
	}
	return -1
}

func (m *model) del(isGone func(f modelField) bool) {
	var kept []modelField
	for _, f := range m.fields {
		if !isGone(f) {
			kept = append(kept, f)
		}
	}
	m.fields = kept
}

func (m *model) String() string {
	var b strings.Builder
	for _, f := range m.fields {
		fmt.Fprintf(&b, "%s=%s ", f.name, f.value)
	}
	return strings.TrimSpace(b.String())
}

var modelNames = []string{
	"Host", "host", "HOST", "X-One", "x-one", "X-ONE", "referer", "Referer",
	"x-two", "Set-Cookie", "set-cookie", "ETag", "Etag", "X-Three",
}

// checkModel compares all results of tab with m.
func checkModel(t *testing.T, step string, tab *Table, m *model) {
	t.Helper()
	if got, want := dump(tab), m.String(); got != want {
		t.Fatalf("%s: the table has\n%s\nwant\n%s", step, got, want)
	}
	lines := ""
	for _, f := range m.fields {
		if f.id != ETag {
			lines += f.name + ": " + f.value + "\r\n"
		}
	}
	if got := string(tab.AppendLines(nil, 1<<ETag)); got != lines {
		t.Fatalf("%s: the lines are %q, want %q", step, got, lines)
	}
	for _, name := range modelNames {
		id := Lookup(name)
		for from := range len(m.fields) + 2 {
			if got, want := tab.Find(id, []byte(name), from), m.find(name, from); got != want {
				t.Fatalf("%s: Find(%s, %d) = %d, want %d in %s", step, name, from, got, want, m)
			}
			if id == Other {
				continue
			}
			if got, want := tab.FindID(id, from), m.findID(id, from); got != want {
				t.Fatalf("%s: FindID(%s, %d) = %d, want %d in %s", step, name, from, got, want, m)
			}
		}
		if id == Other {
			continue
		}
		first, want := m.findID(id, 0), []byte(nil)
		if first >= 0 {
			want = []byte(m.fields[first].value)
		}
		if got := tab.Get(id); string(got) != string(want) || (got == nil) != (first < 0) {
			t.Fatalf("%s: Get(%s) = %q, want %q", step, name, got, want)
		}
		if got := tab.Index(id); got != first {
			t.Fatalf("%s: Index(%s) = %d, want %d", step, name, got, first)
		}
	}
}

// parse adds a raw head of random fields to both.
func parse(random *rand.Rand, tab *Table, m *model) (raw string) {
	for range random.IntN(5) {
		name, value := modelNames[random.IntN(len(modelNames))], strings.Repeat("r", random.IntN(9))
		at := len(raw)
		raw += name + ": " + value + "\r\n"
		tab.PushParsed(Lookup(name), at, at+len(name), at+len(name)+2, at+len(name)+2+len(value))
		m.add(name, value)
	}
	tab.Append([]byte(raw + "not of the head"))
	tab.Seal(len(raw))
	var remembered Table // which finds out what is a line
	remembered.Remember(tab, tab.Len(), 0, len(raw))
	tab.Recall(&remembered)
	return raw
}

// TestTableIsAList does the same to a Table and to a list and compares the results.
// Some values are large, so that the table has garbage to collect.
func TestTableIsAList(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var tab Table
		var m model
		raw := parse(random, &tab, &m)
		for step := range 150 {
			name := modelNames[random.IntN(len(modelNames))]
			value := strings.Repeat(string(rune('a'+step%26)), random.IntN(2<<random.IntN(11)))
			did := change(random, &tab, &m, name, value)
			checkModel(t, fmt.Sprintf("seed %d, step %d, %s", seed, step, did), &tab, &m)
			if got := string(tab.Raw()[:len(raw)]); got != raw {
				t.Fatalf("seed %d, step %d, %s: the raw head became %q", seed, step, did, got)
			}
		}
		if n := cap(tab.Raw()); n > 1<<17 {
			t.Errorf("seed %d: the buffer grew to %d bytes", seed, n)
		}
	}
}

// change does one random thing to both, and describes it.
func change(random *rand.Rand, tab *Table, m *model, name, value string) string {
	id := Lookup(name)
	switch what := random.IntN(10); {
	case what == 0:
		tab.KeepNames = !tab.KeepNames
		m.keepNames = tab.KeepNames
		return fmt.Sprint("KeepNames ", tab.KeepNames)
	case what == 1 && len(m.fields) > 0:
		i := random.IntN(len(m.fields))
		tab.DelAt(i)
		m.fields = append(m.fields[:i:i], m.fields[i+1:]...)
		return fmt.Sprint("DelAt ", i)
	case what == 2:
		tab.Del(id, []byte(name))
		m.del(func(f modelField) bool { return m.isSame(f, name) })
		return "Del " + name
	case what == 3 && id != Other:
		tab.DelID(id)
		m.del(func(f modelField) bool { return f.id == id })
		return "DelID " + name
	case what <= 5 && len(m.fields) > 0:
		i := random.IntN(len(m.fields))
		tab.SetValue(i, []byte(value))
		m.fields[i].value = value
		return fmt.Sprint("SetValue ", i)
	case what <= 7 && id != Other:
		if what == 6 {
			tab.Set(id, []byte(value))
		} else {
			tab.Replace(id, []byte(value))
		}
		if i := m.findID(id, 0); i >= 0 {
			m.fields[i].value = value
		} else {
			m.add(string(id.Canonical()), value)
		}
		return "Set " + name
	}
	add(tab, name, value)
	m.add(name, value)
	return "Add " + name
}

// disturb does something to tab that Again must notice, and describes it.
func disturb(random *rand.Rand, tab, other *Table, text string) string {
	what := random.IntN(11)
	if what < 6 {
		tab.Reset()
	}
	switch what {
	case 0:
		parse(random, tab, &model{})
		return "parse"
	case 1:
		tab.Append([]byte(text + text))
		return "Append"
	case 2:
		tab.SetRaw(append(tab.Raw(), text...))
		return "SetRaw"
	case 3:
		tab.Shrink(random.IntN(20), random.IntN(20))
		return "Shrink"
	case 4:
		tab.AddAll(other)
		return "AddAll"
	case 5:
		tab.Recall(other)
		tab.Reset()
		return "Recall"
	case 6:
		other.CopyTo(tab)
		return "CopyTo"
	case 7:
		other.CopyWith(tab, 0, 0, nil)
		return "CopyWith"
	case 8:
		copied := *tab
		if copied.Again(ContentType, []byte(text)) {
			return "a copy uses the memory"
		}
		copied.Set(ContentType, []byte(text))
		return "assignment"
	case 9:
		if tab.Len() > 0 {
			tab.DelAt(0)
		}
		return "DelAt"
	}
	return change(random, tab, &model{}, "Referer", text)
}

// TestAgain: whatever happens to a table, Again makes it have the one field that it had at Keep, or
// changes nothing, and IsKept is true only while it has that.
func TestAgain(t *testing.T) {
	var other Table
	other.Set(Server, []byte("y"))
	other.Set(ContentType, []byte("z"))
	again, kept := 0, 0
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		var tab Table
		value := "" // at Keep
		for step := range 200 {
			text := []string{"a", "b", "bb"}[random.IntN(3)]
			before, did, isAgain := dump(&tab), "", false
			switch random.IntN(7) {
			case 0:
				did = disturb(random, &tab, &other, text)
			case 1:
				did = "Set " + text
				tab.Set(ContentType, []byte(text))
			case 2:
				did = "Keep"
				tab.Keep(ContentType)
				value = string(tab.Get(ContentType))
			case 3, 4:
				did = "Again " + text
				if isAgain = tab.Again(ContentType, []byte(text)); isAgain {
					again++
				}
			case 5:
				did = "SetValue " + text
				if tab.Len() > 0 {
					tab.SetValue(0, []byte(text))
				}
			default:
				did = "Reset"
				tab.Reset()
			}
			got, want := dump(&tab), "Content-Type="+value
			switch {
			case did == "a copy uses the memory",
				isAgain && (got != want || text != value || before != "" && before != got),
				!isAgain && did == "Again "+text && got != before:
				t.Fatalf("seed %d, step %d, %s: %q became %q; %q was kept", seed, step, did, before, got, value)
			case !tab.IsKept():
			case got != want:
				t.Fatalf("seed %d, step %d, %s: the table has %q; %q was kept", seed, step, did, got, value)
			default:
				kept++
			}
		}
	}
	if again < 100 || kept < 500 {
		t.Errorf("%d times again, kept after %d steps", again, kept)
	}
}

// TestSetValueInPlace: a value that fits is stored in place of the old one, even if
// that was longer once, and in a table that was reset.
func TestSetValueInPlace(t *testing.T) {
	const raw = "x-a: 12345\r\n"
	parse := func(tab *Table) {
		tab.Append([]byte(raw))
		tab.PushParsed(Other, 0, 3, 5, 10)
		tab.Seal(len(raw))
	}
	for name, add := range map[string]func(tab *Table){
		"first":              func(tab *Table) { tab.Set(Host, []byte("12345")) },
		"unknown name":       func(tab *Table) { tab.Add(Other, []byte("X-A"), []byte("12345")) },
		"exact name":         func(tab *Table) { tab.AddExact([]byte("x-A"), []byte("12345")) },
		"behind the raw one": func(tab *Table) { parse(tab); tab.DelAt(0); tab.Set(Host, []byte("12345")) },
		"moved":              func(tab *Table) { tab.Set(Host, []byte("12345")); tab.SetValue(0, []byte("123456")) },
	} {
		var tab Table
		parse(&tab)
		tab.Reset()
		if len(tab.Raw()) != 0 || tab.Len() != 0 {
			t.Fatalf("after Reset: %q, %d fields", tab.Raw(), tab.Len())
		}
		add(&tab)
		size := len(tab.Raw())
		for _, value := range []string{"54321", "1", "", "abcde"} {
			tab.SetValue(0, []byte(value))
			if got := string(tab.Value(0)); got != value || len(tab.Raw()) != size {
				t.Errorf("%s: value %q in %d bytes, want %q in %d", name, got, len(tab.Raw()), value, size)
			}
		}
		tab.SetValue(0, []byte("1234567"))
		if got := string(tab.Value(0)); got != "1234567" || len(tab.Raw()) != size+7 {
			t.Errorf("%s: value %q in %d bytes, want 1234567 in %d", name, got, len(tab.Raw()), size+7)
		}
	}
}

// TestSeal: the raw head ends where it is sealed.
func TestSeal(t *testing.T) {
	var tab Table
	tab.Append([]byte("x-a: 1\r\nbody"))
	tab.PushParsed(Other, 0, 3, 5, 6)
	tab.Seal(8)
	if got := string(tab.Raw()); got != "x-a: 1\r\n" {
		t.Errorf("the raw head is %q", got)
	}
	for range 3 {
		if got := string(tab.Name(0)); got != "X-A" {
			t.Errorf("the name is %q", got)
		}
	}
	if got := string(tab.Raw()); got != "x-a: 1\r\nX-A" {
		t.Errorf("the name is made each time: %q", got)
	}
	add(&tab, "x-b", "2")
	if got := string(tab.Name(1)) + string(tab.Raw()[8:]); got != "X-BX-AX-B2" {
		t.Errorf("the name of what is added is made twice: %q", got)
	}
}

// TestReplaceLeavesTheOldValue: slices of the old value do not change.
func TestReplaceLeavesTheOldValue(t *testing.T) {
	var tab Table
	add(&tab, "Referer", "old value")
	old := tab.Get(Referer)
	tab.Replace(Referer, []byte("new"))
	if string(old) != "old value" || string(tab.Get(Referer)) != "new" {
		t.Errorf("the old value is %q, the new one %q", old, tab.Get(Referer))
	}
}

// TestHandedOutSlicesEnd: appending to a returned name or value changes no other.
func TestHandedOutSlicesEnd(t *testing.T) {
	var tab Table
	tab.Append([]byte("x-raw: 1\r\n"))
	tab.PushParsed(Other, 0, 5, 7, 8)
	tab.Seal(10)
	add(&tab, "X-A", "1")
	add(&tab, "X-B", "2")
	for range 2 { // the first Name of a raw field makes a copy
		for i := range tab.Len() {
			_ = append(tab.Value(i), "overwritten"...)
			_ = append(tab.Name(i), "overwritten"...)
		}
	}
	if got, want := dump(&tab), "X-Raw=1 X-A=1 X-B=2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestCompactKeepsHandedOut: slices from before a compaction keep their bytes.
func TestCompactKeepsHandedOut(t *testing.T) {
	var tab Table
	large := bytes.Repeat([]byte("v"), compactAbove)
	add(&tab, "X-Old", "old")
	add(&tab, "X-Keep", "kept")
	name, value := tab.Name(1), tab.Value(1)
	tab.DelAt(0)
	tab.Set(Referer, large)
	if string(name) != "X-Keep" || string(value) != "kept" {
		t.Errorf("what was handed out became %s=%s", name, value)
	}
	if n := len(tab.Raw()); n != len("X-Keepkept")+len(large) {
		t.Errorf("%d bytes: the garbage is kept", n)
	}
	if n := cap(tab.Raw()); n > 3*compactAbove || n < 2*compactAbove {
		t.Errorf("the buffer has %d bytes, want room for about as much again", n)
	}
}

// TestSmallTablesAreNotCompacted: a table below compactAbove only grows.
func TestSmallTablesAreNotCompacted(t *testing.T) {
	var tab Table
	add(&tab, "X-Old", "old")
	tab.DelAt(0)
	add(&tab, "X-Large", strings.Repeat("v", compactAbove-len("X-OldoldX-Large")))
	if n := len(tab.Raw()); n != compactAbove {
		t.Errorf("%d bytes, want %d", n, compactAbove)
	}
}

// TestGarbageIsCollected: changing the same fields again and again needs no more and
// more memory.
func TestGarbageIsCollected(t *testing.T) {
	value := bytes.Repeat([]byte("v"), 100)
	for name, change := range map[string]func(*Table){
		"AddExact": func(tab *Table) {
			tab.AddExact([]byte("x-exact"), value)
			tab.DelAt(0)
		},
		"Add": func(tab *Table) {
			add(tab, "x-one", string(value))
			tab.DelAt(0)
		},
		"Replace": func(tab *Table) { tab.Replace(Referer, value) },
	} {
		var tab Table
		for range 1000 {
			change(&tab)
		}
		if n := cap(tab.Raw()); n > 4*compactAbove {
			t.Errorf("%s: the buffer grew to %d bytes", name, n)
		}
	}
}

// TestIsNormalized: it is true for exactly the tokens that Normalize does not change.
func TestIsNormalized(t *testing.T) {
	for c := range 256 {
		for _, name := range []string{string([]byte{byte(c)}), "A" + string([]byte{byte(c)}), "A-" + string([]byte{byte(c)})} {
			normal := []byte(name)
			Normalize(normal)
			if !ascii.All([]byte(name), ascii.Token) {
				continue
			}
			if got, want := IsNormalized([]byte(name)), string(normal) == name; got != want {
				t.Errorf("IsNormalized(%q) = %v, want %v", name, got, want)
			}
		}
	}
}

func TestShrink(t *testing.T) {
	var tab Table
	add(&tab, "X-A", "value")
	add(&tab, "X-B", "value")
	tab.Reset()
	bytesWere, fieldsWere := cap(tab.buf), cap(tab.fields)
	tab.Shrink(bytesWere, fieldsWere)
	if cap(tab.buf) != bytesWere || cap(tab.fields) != fieldsWere {
		t.Errorf("memory within the bounds was dropped: %d bytes, %d fields", cap(tab.buf), cap(tab.fields))
	}
	tab.Shrink(bytesWere-1, fieldsWere)
	if cap(tab.buf) != 0 || cap(tab.fields) != fieldsWere {
		t.Errorf("%d bytes and %d fields are kept", cap(tab.buf), cap(tab.fields))
	}
	tab.Shrink(bytesWere, fieldsWere-1)
	if tab.fields != nil {
		t.Errorf("%d fields are kept", cap(tab.fields))
	}
}

// TestLastSlot: a known field is found up to the highest position that a slot can
// hold, after Add and after fields have moved. Later fields are not found.
func TestLastSlot(t *testing.T) {
	const maxSlot = 65535
	var tab Table
	for range maxSlot - 1 {
		tab.Add(Other, []byte("X"), nil)
	}
	tab.Add(Referer, nil, []byte("last"))
	tab.Add(Host, nil, []byte("beyond"))
	tab.Add(Host, nil, []byte("also"))
	check := func(when string) {
		t.Helper()
		if tab.Index(Referer) != maxSlot-1 || string(tab.Get(Referer)) != "last" {
			t.Errorf("%s: Referer at %d, want %d", when, tab.Index(Referer), maxSlot-1)
		}
		if tab.Index(Host) != -1 || tab.Get(Host) != nil || tab.FindID(Host, 0) != -1 {
			t.Errorf("%s: Host at %d, want none", when, tab.Index(Host))
		}
	}
	check("after Add")
	tab.Add(Other, []byte("X"), nil)
	tab.DelAt(maxSlot + 2)
	check("after DelAt")
	tab.DelAt(0)
	if tab.Index(Host) != maxSlot-1 || tab.Index(Referer) != maxSlot-2 {
		t.Errorf("one place to the front: Referer at %d, Host at %d", tab.Index(Referer), tab.Index(Host))
	}
}

// TestCopyIsWhole: a copy also has the raw head and KeepNames.
func TestCopyIsWhole(t *testing.T) {
	var tab, other Table
	add(&other, "Server", "old")
	raw := "x-a: 1\r\n"
	tab.KeepNames = true
	tab.Append([]byte(raw))
	tab.PushParsed(Other, 0, 3, 5, 6)
	tab.Seal(len(raw))
	tab.CopyTo(&other)
	other.SetValue(0, []byte("2"))
	add(&other, "hOST", "h")
	if got, want := dump(&other), "x-a=2 hOST=h"; got != want {
		t.Errorf("the copy has %s, want %s", got, want)
	}
	if got := string(other.Raw()[:len(raw)]); got != raw {
		t.Errorf("the copy's raw head became %q", got)
	}
	if got, want := dump(&tab), "x-a=1"; got != want {
		t.Errorf("the original has %s, want %s", got, want)
	}
}

// TestID: a field has its ID in any spelling.
func TestID(t *testing.T) {
	tab := Table{KeepNames: true}
	add(&tab, "hOST", "a")
	add(&tab, "X-A", "1")
	if tab.ID(0) != Host || tab.ID(1) != Other {
		t.Errorf("IDs %d, %d", tab.ID(0), tab.ID(1))
	}
}
