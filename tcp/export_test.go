package tcp

// ListenersOf returns how many listeners Shutdown would close.
func ListenersOf(s *Server) int {
	listeners, _ := s.serving.Counts()
	return listeners
}
