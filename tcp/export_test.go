package tcp

// ListenersOf returns how many listeners Shutdown would close.
func ListenersOf(s *Server) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners)
}
