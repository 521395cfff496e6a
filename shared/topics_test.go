package shared

import (
	"errors"
	"fmt"
	"testing"
)

func TestTopics(t *testing.T) {
	first := Must(New(Options{Processes: 3, Local: true}))
	second := attachAgain(t, first, 4711)
	a, b := Must(first.Topics("topics")), Must(second.Topics("topics"))
	if a.Own() == b.Own() || a.Interest("room") != b.Interest("room") || a.Interest("room") == a.Interest("other") {
		t.Fatalf("sets %d and %d, interests %d and %d", a.Own(), b.Own(), a.Interest("room"), b.Interest("room"))
	}
	holds := func(want bool, interest int) {
		t.Helper()
		if a.Holds(b.Own(), interest) != want || b.Holds(b.Own(), interest) != want {
			t.Errorf("%d: held %t, want %t", interest, !want, want)
		}
	}
	for _, interest := range []int{0, 63, 64, topicCount - 1, a.Interest("room")} {
		holds(false, interest)
		b.Add(interest)
		b.Add(interest)
		holds(true, interest)
		b.Remove(interest)
		holds(true, interest)
		b.Remove(interest)
		holds(false, interest)
		b.Add(interest)
		if a.Holds(a.Own(), interest) {
			t.Errorf("%d is in the other set, too", interest)
		}
	}
	if !a.Holds(-1, 0) || !a.Holds(3, 0) || a.Holds(2, 0) {
		t.Error("a set that does not exist does not hold all, or another holds any")
	}
	second.Reap(4711)
	third := attachAgain(t, first, 4712)
	if c := Must(third.Topics("topics")); c.Own() != b.Own() {
		t.Fatalf("set %d", c.Own())
	}
	for interest := range topicCount {
		holds(false, interest)
	}
	if _, err := Must(New(Options{Size: 128 << 10, Processes: 20, Local: true})).Topics("x"); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

func BenchmarkTopicsHolds(b *testing.B) {
	s := Must(New(Options{Local: true}))
	topics := Must(s.Topics("topics"))
	for _, size := range []int{8, 64} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			topic := fmt.Sprintf("%*d", size, 1)
			b.ReportAllocs()
			for b.Loop() {
				topics.Holds(1, topics.Interest(topic))
			}
		})
	}
}
