package upgrade

// A Mover knows which messages the members of its groups have got, so that those that move
// to another process get each of the next ones once. Package room has one for each hub.
type Mover struct {
	// Hold returns a mark of what the members of these groups have got, and keeps messages
	// from them until release is called. ok is false if they are getting one; then it holds
	// nothing. It does not wait.
	Hold func(groups []string) (mark string, release func(), ok bool)
}
