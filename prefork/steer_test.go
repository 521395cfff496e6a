package prefork

import (
	"testing"
	"time"
)

func TestTurnover(t *testing.T) {
	const connections = 100
	for _, c := range []struct {
		name     string
		period   time.Duration
		ends     bool // each connection ends before the next one comes
		every    int  // or only one of so many
		passedOn bool
		want     bool
	}{
		{name: "a connection per request", period: time.Millisecond, ends: true, want: true},
		{name: "many that stay", period: time.Millisecond},
		{name: "many that are passed on", period: time.Millisecond, ends: true, passedOn: true},
		{name: "now and then one", period: 10 * time.Millisecond, ends: true},
		{name: "just quick enough", period: 100*time.Millisecond/16 - 1, ends: true, want: true},
		{name: "just too slow", period: 100 * time.Millisecond / 16, ends: true},
		{name: "half of them", period: time.Millisecond, ends: true, every: 2, want: true},
		{name: "a third of them", period: time.Millisecond, ends: true, every: 3},
	} {
		var recent turnover
		var done uint64
		for i := range connections {
			got := recent.isQuick(int64(i)*int64(c.period), done)
			if want := c.want && i >= 16; got != want {
				t.Errorf("%s: quick at connection %d: %v, want %v", c.name, i, got, want)
			}
			if c.passedOn {
				recent.passedOn()
			}
			if c.ends && (c.every == 0 || i%c.every == 0) {
				done++
			}
		}
	}
}

// After many short connections, connections that arrive at once are spread again.
func TestTurnoverForgets(t *testing.T) {
	var recent turnover
	for i := range 100 {
		recent.isQuick(int64(i)*int64(time.Millisecond), uint64(i))
	}
	isQuick := true
	for i := range turnoverSpan {
		isQuick = recent.isQuick(int64(100+i)*int64(time.Millisecond), 100)
	}
	if isQuick {
		t.Error("connections that stay count as short-lived")
	}
}
