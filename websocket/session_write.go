package websocket

// beginFlush lets another goroutine write the output of a call that is still running,
// because it has become much. The lock is held, and run is running.
func (s *session) beginFlush() {
	out, written := s.out, len(s.out)-s.counted
	s.out, s.counted = nil, 0
	s.run, s.flushed = flushing, make(chan struct{})
	s.host.server.Count(0, written)
	go s.flush(out)
}

// flush writes out. Nothing else uses the engine's Conn meanwhile: the call of the engine
// is in a callback, or waits in leave.
func (s *session) flush(out []byte) {
	_, err := s.engine.Write(out)
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.wrote(out, err)
	s.run = running
	close(s.flushed)
}

// wrote ends a write of out during a call. The lock is held.
func (s *session) wrote(out []byte, err error) {
	if s.out == nil {
		s.out = out[:0]
	}
	if err != nil {
		s.note(err)
		s.end(endAbort)
	}
	s.conn.more.makeRoom()
}

// sendFirst makes out, which is the output of a call that was not the engine's, the first
// that the engine sends.
func (s *session) sendFirst(out []byte) {
	if len(out) == 0 {
		return
	}
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.conn.waiting(s.conn.more).addRaw(out)
}
