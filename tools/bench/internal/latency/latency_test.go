package latency

import (
	"encoding/json"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Count() != 0 || h.Percentile(99) != 0 {
		t.Errorf("the empty histogram has %d values, p99 %v", h.Count(), h.Percentile(99))
	}
	for i := 1; i <= 100; i++ {
		h.Record(time.Duration(i) * time.Millisecond)
	}
	h.Record(-time.Second) // as a clock that was set back would make it
	h.Record(2 * time.Hour)
	if h.Count() != 102 {
		t.Errorf("%d values", h.Count())
	}
	if p50 := h.Percentile(50); p50 < 49*time.Millisecond || p50 > 51*time.Millisecond {
		t.Errorf("p50 %v", p50)
	}
	if longest := h.Percentile(100); longest < time.Hour*99/100 || longest > time.Hour*101/100 {
		t.Errorf("longest %v", longest)
	}
}

func TestHistogramsTravel(t *testing.T) {
	sent := struct{ A Histogram }{}
	sent.A.Record(7 * time.Millisecond)
	text, err := json.Marshal(&sent)
	if err != nil {
		t.Fatal(err)
	}
	received := struct{ A Histogram }{}
	if err := json.Unmarshal(text, &received); err != nil {
		t.Fatal(err)
	}
	received.A.Record(9 * time.Millisecond)
	received.A.Add(&sent.A)
	if received.A.Count() != 3 || received.A.Percentile(50) > 8*time.Millisecond {
		t.Errorf("%d values, p50 %v", received.A.Count(), received.A.Percentile(50))
	}
	if err := json.Unmarshal([]byte(`{"A":"nonsense"}`), &received); err == nil {
		t.Error("nonsense is a histogram")
	}
}

func TestMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		42 * time.Microsecond: "0.042", 3740 * time.Microsecond: "3.7", 1234 * time.Millisecond: "1234",
	} {
		if got := Milliseconds(d); got != want {
			t.Errorf("Milliseconds(%v) = %q, want %q", d, got, want)
		}
	}
}
