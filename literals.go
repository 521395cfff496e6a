package sluice

// Byte slices for functions of package bytes. They are never written to, and no
// method returns them.
var (
	schemeEnd   = []byte("://")
	doubleSlash = []byte("//")
	percent25   = []byte("%25")
	slash       = []byte("/")
)
