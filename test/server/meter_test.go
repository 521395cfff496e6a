package server_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// fullMeter returns a Meter that counts everything.
func fullMeter() *sluice.Meter {
	words := make([]struct {
		word atomic.Uint64
		_    [56]byte
	}, 9)
	m := &sluice.Meter{Accepted: &words[0].word, Done: &words[1].word, BytesRead: &words[2].word, BytesWritten: &words[3].word}
	for i := range m.Status {
		m.Status[i] = &words[4+i].word
	}
	return m
}

// BenchmarkMeterOldest is what a look at the requests in flight costs.
func BenchmarkMeterOldest(b *testing.B) {
	m := fullMeter()
	for b.Loop() {
		m.InFlight()
		m.Oldest(time.Now())
	}
}
