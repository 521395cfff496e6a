package sluice

// ForgetMisuse makes s log the next misuse of each kind. Tests outside of the package use it.
func ForgetMisuse(s *Server) {
	for i := range s.gauges.hasWarned {
		s.gauges.hasWarned[i].Store(false)
	}
}
