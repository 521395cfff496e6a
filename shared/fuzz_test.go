package shared

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"testing"
	"time"
)

// FuzzAttach damages words of a segment with all types and attaches to it. Attach may
// fail, and values may be wrong; but nothing may panic, hang, or access memory
// outside the segment.
func FuzzAttach(f *testing.F) {
	good := Must(New(Options{Size: 96 << 10, Processes: 2, Local: true}))
	openAll(f, good)
	useAll(good)
	change := func(at int, value uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(at)), value)
	}
	f.Add([]byte{})
	for at := range headerWords {
		f.Add(change(at, 0))
		f.Add(change(at, 1<<63))
	}
	for e := range good.readyEntries() {
		entry := good.layout.dirAt
		for ; !(&entryAt{good, entry}).is(e); entry += entryWords {
			continue
		}
		for i := range 9 {
			f.Add(change(entry+i, 1<<20))
			f.Add(append(change(entry+i, 64), change(e.offset, ^uint64(0))...))
		}
		for i := range 20 {
			f.Add(change(e.offset+i, ^uint64(0)))
			f.Add(change(e.offset+i, 3))
		}
	}
	words := heapWords(good.layout.size)
	f.Fuzz(func(t *testing.T, changes []byte) {
		for i := range words {
			words[i].Store(good.words[i].Load())
		}
		for ; len(changes) >= 12; changes = changes[12:] {
			at := int(binary.LittleEndian.Uint32(changes)) % len(words)
			words[at].Store(binary.LittleEndian.Uint64(changes[4:]))
		}
		s, err := attachWords(words)
		if err != nil {
			return
		}
		s.lockWait = 0
		useAll(s)
		s.Reap(int(good.words[good.layout.laneAt].Load()))
		useAll(s)
	})
}

// entryAt is a position in the directory.
type entryAt struct {
	segment *Segment
	at      int
}

func (a *entryAt) is(e entry) bool { return &a.segment.words[a.at] == &e.words[0] }

// useAll uses all values of openAll that can be opened.
func useAll(s *Segment) {
	key, value := []byte("key"), []byte("some value that is longer than the key")
	if c, err := s.Counter("counter"); err == nil {
		c.Inc()
		c.Value()
	}
	if g, err := s.Gauge("gauge"); err == nil {
		g.Inc()
		g.Value()
	}
	if h, err := s.Histogram("histogram"); err == nil {
		h.Record(1 << 40)
		snapshot := h.Snapshot()
		snapshot.Quantile(0.99)
		snapshot.CountAtMost(1 << 62)
	}
	if l, err := s.RateLimiter("limiter", RateLimit{Events: 10, Per: time.Second, Keys: 100}); err == nil {
		l.Allow(key)
		l.AllowN(value, 11)
		l.AllowN(value, 3)
	}
	if c, err := s.Cache("cache", CacheOptions{Size: 8 << 10, MaxEntry: 300}); err == nil {
		for i := range 100 {
			key[0] = byte(i)
			c.Get(nil, key)
			_ = c.Set(key, value, time.Duration(i%3)*time.Minute)
			c.Get(nil, key)
		}
		_ = c.Delete(key)
	}
	useRest(s, value)
}

func useRest(s *Segment, value []byte) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if o, err := s.Once("once"); err == nil {
		_ = o.Do(ended, func() error { return nil })
	}
	if l, err := s.Lease("lease", time.Minute); err == nil {
		l.TryAcquire()
		l.Holder()
		l.Renew()
		l.Release()
	}
	if f, err := s.Flag("flag"); err == nil {
		f.Set(!f.IsOn())
	}
	if c, err := s.Config("config", 100); err == nil {
		c.Load(nil)
		_ = c.Store(value)
		c.Load(nil)
	}
	if k, err := s.TicketKeys("keys"); err == nil {
		k.Keys()
		_ = k.Rotate()
		_, _ = k.latest().EncryptTicket(tls.ConnectionState{}, &tls.SessionState{})
	}
	s.Scoreboard(nil)
	s.Process(1)
	s.Total()
	s.Entries()
	s.Size()
}
