package supervise

import "time"

// modelTimeout is the HangTimeout of the model's fleets.
const modelTimeout = 6 * time.Second

// modelHealth is a worker's health as seen from outside the machine. Its clocks go on
// when the machine resets its own, so they allow at least what the machine may do.
type modelHealth struct {
	isDeaf  bool // answers no PINGs
	isStuck bool // accepts none of the connections that wait
	heard   time.Time
	moved   time.Time
	hungAt  time.Time // zero: it was never found hanging
}

func (h *modelHealth) reset(now time.Time) { h.heard, h.moved = now, now }

// mayHang reports whether w may be found hanging.
func (m *model) mayHang(w *modelWorker) bool {
	h := &w.health
	return m.now.Sub(h.heard) >= modelTimeout || m.fleet.looksAtQueues() && m.now.Sub(h.moved) >= modelTimeout
}

// age advances the time: mostly a little, so that probes come in time, and sometimes
// a lot, as if the machine had been suspended.
func (m *model) age() {
	m.t.Helper()
	switch n := m.random.IntN(100); {
	case n < 10:
		if _, w := m.pick(func(w *modelWorker) bool { return w.ready && !w.told }); w != nil {
			w.health.isDeaf = !w.health.isDeaf
		}
		return
	case n < 16:
		if _, w := m.pick(func(w *modelWorker) bool { return w.ready && !w.told }); w != nil {
			w.health.isStuck = !w.health.isStuck
		}
		return
	case n < 18: // all workers
		for _, w := range m.live {
			w.health.isDeaf = true
		}
		return
	case n < 21:
		m.now = m.now.Add(time.Duration(m.random.IntN(60)+10) * time.Second)
		m.stoodStill++
	default:
		m.now = m.now.Add(time.Duration(m.random.IntN(1500)) * time.Millisecond)
	}
	m.feed(event{kind: evTick})
}

// probed answers a probe if the worker would.
func (m *model) probed(a action, w *modelWorker) {
	m.t.Helper()
	if w == nil || w.pid == 0 || !w.ready || !w.attached || w.told {
		m.failf("probe (action %d) of %v", a.kind, a.worker)
	}
	switch {
	case a.kind == actLook:
		e := event{kind: evQueue, worker: a.worker, number: m.random.IntN(3), progress: m.random.Uint64(), ready: true}
		if a.pid != w.pid {
			m.failf("a look at %v as process %d", a.worker, a.pid)
		}
		if m.fleet.config.SharedSockets {
			m.failf("a look at the shared queue for %v", a.worker)
		}
		if w.health.isStuck {
			e.number, e.progress = 3, 7
		}
		m.answers = append(m.answers, e)
	case !w.health.isDeaf:
		m.answers = append(m.answers, event{kind: evPong, worker: a.worker})
	}
}

// deliver feeds an answer to the machine, unless its worker has ended.
func (m *model) deliver(e event) {
	m.t.Helper()
	w := m.live[e.worker]
	if w == nil || m.finished {
		return
	}
	switch {
	case e.kind == evPong:
		w.health.heard = m.now
	case !w.health.isStuck:
		w.health.moved = m.now
	}
	m.feed(e)
}

// hung checks that a worker may be found hanging, and that no other one is treated
// while some are well.
func (m *model) hung(k key, w *modelWorker) {
	m.t.Helper()
	if !w.attached || !w.ready || w.told || !w.health.hungAt.IsZero() || !m.mayHang(w) {
		m.failf("%v is said to hang: %+v", k, w)
	}
	if w.version == m.fleet.good {
		m.crashes++
	}
	m.hangs++
	w.told, w.health.hungAt = true, m.now
	others, isAnyWell, well := 0, false, key{}
	for other, o := range m.live {
		switch {
		case other == k:
		case !o.health.hungAt.IsZero() && m.now.Sub(o.health.hungAt) < m.fleet.config.BootTimeout:
			others++
		case o.ready && !o.told && !o.killed && !(o.attached && m.mayHang(o)):
			isAnyWell, well = true, other
		}
	}
	if others > 0 && isAnyWell && m.fleet.mode == modeRunning {
		m.failf("%v is treated beside %d others that hang, %v is well: %+v", k, others, well, m.live[well])
	}
}

// closed checks that no worker needs the sockets that the master closes.
func (m *model) closed() {
	m.t.Helper()
	if m.isClosed || m.fleet.mode < modeStopping {
		m.failf("the sockets are closed in mode %d", m.fleet.mode)
	}
	for k, w := range m.live {
		if w.pid == 0 {
			m.failf("the sockets are closed while %v is forked", k)
		}
	}
	m.isClosed = true
}
