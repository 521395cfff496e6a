package supervise

import (
	"strings"
	"testing"
	"time"
)

// The log says once each time that the fleet becomes degraded.
func TestDegradeIsSaid(t *testing.T) {
	s := newScript(t, Config{Workers: 2, RecoverThreshold: 1, RecoverWindow: time.Minute, OverRecovery: OverRecoveryDegrade})
	s.start()
	generation := 1
	for round := 1; round <= 3; round++ {
		for i := range 3 {
			s.exit(0, generation)
			generation++
			said := 0
			for _, line := range s.log {
				if strings.Contains(line, "serving with the remaining workers") {
					said++
				}
			}
			if want := round - 1 + min(i, 1); said != want {
				t.Fatalf("round %d, death %d: said %d times, want %d", round, i, said, want)
			}
			for s.fleet.slots[0].serving == nil {
				s.sleep(s.fleet.next().Sub(s.now))
			}
			s.boot(0, generation)
		}
		s.sleep(2 * time.Minute)
		if s.fleet.degraded {
			t.Fatal("still degraded")
		}
	}
}

func TestDegrade(t *testing.T) {
	s := newScript(t, Config{Workers: 2, RecoverThreshold: 1, RecoverWindow: time.Minute, OverRecovery: OverRecoveryDegrade})
	s.start()
	s.exit(0, 1)
	s.boot(0, 2)
	s.exit(0, 2)
	if !s.fleet.degraded || s.fleet.mode != modeRunning {
		t.Fatalf("degraded %v, mode %v", s.fleet.degraded, s.fleet.mode)
	}
	for i, pause := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000} {
		pause *= time.Millisecond
		if got := s.fleet.slots[0].respawnAt.Sub(s.now); got < pause*8/10 || got > pause*12/10 {
			t.Errorf("death %d: a pause of %v, want %v ± 20 %%", i+2, got, pause)
		}
		s.now = s.fleet.slots[0].respawnAt
		s.fleet.crashes = s.fleet.crashes[:i+2] // none is forgotten
		for c := range s.fleet.crashes {
			s.fleet.crashes[c] = s.now
		}
		s.feed(event{kind: evTick})
		s.want(actSpawn)
		s.boot(0, i+3)
		s.exit(0, i+3)
	}
	s.now = s.fleet.slots[0].respawnAt
	s.feed(event{kind: evTick})
	s.boot(0, 14)
	if !s.fleet.degraded {
		t.Fatal("one ready worker ended the state within the window")
	}
	s.sleep(s.fleet.next().Sub(s.now))
	if s.fleet.degraded {
		t.Fatal("still degraded")
	}
}
