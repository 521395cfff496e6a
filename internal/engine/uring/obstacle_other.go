//go:build !linux || (!amd64 && !arm64)

package uring

import "errors"

func obstacle() error { return errors.New("sluice: io_uring needs Linux on amd64 or arm64") }
