package clock

import (
	"testing"
	"time"
)

func TestTimeFollowsNanos(t *testing.T) {
	now := Nanos()
	want := time.Now()
	if d := Time(now).Sub(want); d > time.Second || d < -time.Second {
		t.Fatalf("Time(now) is %v away from time.Now", d)
	}
	if a, b := Time(now), Time(now+1500); b.Sub(a) != 1500 {
		t.Fatalf("Time does not move with nanos: %v", b.Sub(a))
	}
	if d := Deadline(now + int64(time.Hour)).Sub(want); d < 59*time.Minute || d > 61*time.Minute {
		t.Fatalf("Deadline is %v away, want 1h", d)
	}
}

func TestDate(t *testing.T) {
	now := Nanos()
	got := string(Date(now)[:])
	parsed, err := time.Parse(dateLayout, got)
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(parsed); d < -time.Second || d > 3*time.Second {
		t.Fatalf("date %q is %v old", got, d)
	}
	later := string(Date(now + int64(2*time.Second))[:])
	if _, err := time.Parse(dateLayout, later); err != nil {
		t.Fatal(err)
	}
}

// TestDateUntil: the date is that of every time that DateUntil names.
func TestDateUntil(t *testing.T) {
	now := Nanos()
	date, from, until := DateUntil(now)
	if now < from || now >= until || until-from > int64(2*time.Second) {
		t.Fatalf("%d is not from %d until %d, or these are not near", now, from, until)
	}
	second, err := time.Parse(dateLayout, string(date[:]))
	if err != nil {
		t.Fatal(err)
	}
	if d := second.Add(time.Second).Sub(Deadline(until)).Abs(); d > 50*time.Millisecond {
		t.Fatalf("the second of %s ends %v from until", date[:], d)
	}
}

func TestNoAllocationWithinASecond(t *testing.T) {
	Date(Nanos())
	n := testing.AllocsPerRun(1000, func() { Date(Nanos()) })
	if n > 0.1 {
		t.Fatalf("%v allocations per call", n)
	}
}

func BenchmarkNanos(b *testing.B) {
	for b.Loop() {
		Nanos()
	}
}

func BenchmarkDate(b *testing.B) {
	for b.Loop() {
		Date(Nanos())
	}
}
