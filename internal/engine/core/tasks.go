//go:build linux && (amd64 || arm64)

package core

import "github.com/sluicehttp/sluice/internal/engine"

// Go implements engine.Workers.
func (q *runQueue) Go(t engine.Task) {
	q.mu.Lock()
	if q.isOver {
		q.mu.Unlock()
		go t.Lost(engine.ErrShutdown)
		return
	}
	q.tasks.push(t)
	if q.hasRoomAheadLocked() {
		q.ahead.push(taskTurn)
	} else {
		q.ready.push(taskTurn)
		q.later++
	}
	w, isNew := q.spareLocked()
	q.mu.Unlock()
	q.wake(w, isNew)
}

// endTask counts out the task of w, if there is one.
func (q *runQueue) endTask(w *worker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endTaskLocked(w)
}

// endTaskLocked is endTask; mu is held.
func (q *runQueue) endTaskLocked(w *worker) {
	if w.task != nil {
		w.task = nil
		q.taskEndedLocked()
	}
}

// taskEndedLocked counts out a task that was running; mu is held.
func (q *runQueue) taskEndedLocked() {
	if q.running--; q.running == 0 && q.tasks.count == 0 {
		q.emptied()
	}
}

// countTasks returns the number of tasks that are queued or running.
func (q *runQueue) countTasks() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tasks.count + q.running
}

// loseQueued loses the tasks that have not begun, and those to come.
func (q *runQueue) loseQueued() {
	q.mu.Lock()
	var lost []engine.Task
	for q.tasks.count > 0 {
		lost = append(lost, q.tasks.pop()) // pop ignores their turns
	}
	q.isOver = true
	isLast := q.running == 0
	q.mu.Unlock()
	for _, t := range lost {
		go t.Lost(engine.ErrShutdown)
	}
	if isLast {
		q.emptied()
	}
}

// endTasks makes the engine lose tasks from now on. It returns false if there are
// some that have not ended. A task may begin others, on any loop, so all queues are
// looked at together.
func (d *driver) endTasks() bool {
	for _, l := range d.loops {
		l.queue.mu.Lock()
		defer l.queue.mu.Unlock()
	}
	for _, l := range d.loops {
		if l.queue.tasks.count+l.queue.running > 0 {
			return false
		}
	}
	for _, l := range d.loops {
		l.queue.isOver = true
	}
	return true
}

// Workers implements engine.Conn.
func (c *conn) Workers() engine.Workers { return &c.loop.queue }

// Workers implements engine.Engine. A loop that never ran is not closed, so that its workers
// would stay after Shutdown.
func (d *driver) Workers(key uint64) engine.Workers {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.loops[key%uint64(len(d.loops))]
	if l.poller == nil && (d.life.Has(engine.StageShutDown) || d.startLoopsLocked() != nil) {
		return d.fallback.Workers(key)
	}
	return &l.queue
}
