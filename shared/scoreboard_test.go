package shared

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func pageRole(s *Segment, in *bufio.Scanner) {
	page := s.Page()
	page.Set(Slot, 3)
	page.Set(Generation, 7)
	page.Set(ProcessState, uint64(Ready))
	page.Set(Heartbeat, uint64(s.Now()))
	for range 100 {
		page.Add(Accepted, 1)
		page.Add(Active, 1)
	}
	page.Add(Done, 40)
	page.Sub(Active, 40)
	page.Set(Requests, 1000)
	page.Set(Requests, 1001)
	page.Set(Status2xx, 1001)
	page.Set(Goroutines, 12)
	say("ready")
	hear(in)
}

func TestScoreboard(t *testing.T) {
	s := newShared(t, 8)
	for round := uint64(1); round <= 3; round++ {
		w := startProcesses(t, s, "page", 1)[0]
		all := s.Scoreboard(nil)
		if len(all) != 2 || all[0].PID != os.Getpid() {
			t.Fatalf("round %d: %+v", round, all)
		}
		p := all[1]
		if p.PID != w.cmd.Process.Pid || p.Slot != 3 || p.Generation != 7 || p.State != Ready || time.Since(p.StartedAt) > time.Hour || time.Since(p.StartedAt) < 0 ||
			p.Accepted != 100 || p.Done != 40 || p.Active != 60 || p.Requests != 1001 || p.Status != [5]uint64{0, 1001} || p.Goroutines != 12 {
			t.Errorf("round %d: %+v", round, p)
		}
		if age := s.Now() - p.Heartbeat; age < 0 || age > int64(time.Hour) {
			t.Errorf("the heartbeat is %v old", time.Duration(age))
		}
		w.kill()
		if len(s.Scoreboard(nil)) != 1 {
			t.Error("a dead process is on the scoreboard")
		}
		last, isFound := s.Process(p.PID)
		if !isFound || last.Accepted-last.Done != 60 || last.Active != 0 || last.State != Stopped {
			t.Errorf("after its death: %v, %+v", isFound, last)
		}
		accepted, done, traffic := s.Total()
		if accepted != 100*round || done != 40*round || traffic.Requests != 1001*round || traffic.Status[1] != 1001*round {
			t.Errorf("round %d: %d, %d, %+v in total", round, accepted, done, traffic)
		}
	}
	if _, isFound := s.Process(0); isFound {
		t.Error("process 0 was found")
	}
}

// Fields do not overlap, and each appears in a Process.
func TestFields(t *testing.T) {
	if fieldEnd > pageBase {
		t.Errorf("fields end at %d, their bases begin at %d", fieldEnd, pageBase)
	}
	groups := [][2]Field{{Slot, fieldPID}, {Heartbeat, Lag}, {Accepted, Cut}, {Active, Oldest}, {Requests, Status5xx}, {ResidentBytes, CPUTime}, {Inbound, Refused}, {HTTP2Connections, Room}, {HTTP3Connections, HTTP3Lost}}
	for i, g := range groups {
		if int(g[0]) != i*lineWords || g[1] < g[0] || int(g[1]) >= (i+1)*lineWords {
			t.Errorf("group %d is %d to %d: not on a line of its own", i, g[0], g[1])
		}
	}
	var names []string
	for state := Starting; state <= Hung+1; state++ {
		names = append(names, state.String())
	}
	if got := strings.Join(names, " "); got != "starting ready draining stopped hung unknown" {
		t.Error(got)
	}
}

// A process that ended in order has lost no connections: those that were still open
// count as cut. They are added to Done, once.
func TestCutConnections(t *testing.T) {
	for _, c := range []struct {
		state     State
		done, cut uint64
	}{{Starting, 4, 0}, {Ready, 4, 0}, {Draining, 4, 0}, {Stopped, 10, 6}, {Stopped, 10, 1}} {
		t.Run(c.state.String(), func(t *testing.T) {
			s := newLocal(t)
			lost := uint64(0)
			for round := uint64(1); round <= 3; round++ {
				page := s.Page()
				page.Add(Accepted, 10)
				page.Add(Done, c.done-c.cut)
				page.Add(Cut, c.cut)
				page.Set(ProcessState, uint64(c.state))
				s.Reap(os.Getpid())
				accepted, done, traffic := s.Total()
				lost += 10 - c.done
				if done != round*c.done || traffic.Cut != round*c.cut || accepted-done != lost {
					t.Errorf("round %d: %d accepted, %d done, %d cut", round, accepted, done, traffic.Cut)
				}
				if p, _ := s.Process(os.Getpid()); p.Cut != c.cut || p.Done != c.done {
					t.Errorf("round %d: %+v", round, p)
				}
				s.Reap(os.Getpid()) // a second Reap changes nothing
				if !s.takeLane() {
					t.Fatal("there is no lane")
				}
				s.resetPage()
			}
		})
	}
}

// Others yields the pages of all other living processes.
func TestOthers(t *testing.T) {
	s := newLocal(t)
	pids := func(of *Segment) (all []int) {
		for p := range of.Others() {
			all = append(all, p.PID())
		}
		return all
	}
	if all := pids(s); len(all) != 0 {
		t.Errorf("alone, the process has others: %v", all)
	}
	var theirs [3]*Segment
	for i := range theirs {
		theirs[i] = attachAgain(t, s, 101+i)
		page := theirs[i].Page()
		page.Set(fieldPID, uint64(101+i))
		page.Set(Accepted, uint64(10*i))
	}
	if all := pids(s); !slices.Equal(all, []int{101, 102, 103}) {
		t.Errorf("others: %v", all)
	}
	if all := pids(theirs[1]); !slices.Equal(all, []int{os.Getpid(), 101, 103}) {
		t.Errorf("the second one's others: %v", all)
	}
	for p := range s.Others() { // the page itself, no copy
		p.Add(Inbound, 7)
		if p.Get(Accepted) == 10 {
			break
		}
	}
	for i, want := range []uint64{7, 7, 0} {
		if got := theirs[i].Page().Get(Inbound); got != want {
			t.Errorf("process %d: %d inbound, want %d", i, got, want)
		}
	}
	s.Reap(102)
	if all := pids(s); !slices.Equal(all, []int{101, 103}) {
		t.Errorf("others after the second one's death: %v", all)
	}
	if n := testing.AllocsPerRun(100, func() {
		for p := range s.Others() {
			p.Get(Active)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPage(t *testing.T) {
	page := newLocal(t).Page()
	page.words[pageBase+Requests].Store(100) // counted by an earlier process
	page.words[Requests].Store(100)
	page.Set(Requests, 5)
	page.Add(Requests, 2)
	if page.Get(Requests) != 7 || page.words[Requests].Load() != 107 {
		t.Errorf("%d, %d in total", page.Get(Requests), page.words[Requests].Load())
	}
	page.Word(Requests).Add(3)
	page.Word(Active).Store(9)
	if page.Get(Requests) != 10 || page.words[Requests].Load() != 110 || page.Get(Active) != 9 {
		t.Errorf("by words: %d, %d in total; %d active", page.Get(Requests), page.words[Requests].Load(), page.Get(Active))
	}
}
