package sluice

import (
	"errors"
)

var errWire = errors.New("the wire is cut")
