//go:build !linux

package load

import "errors"

func newPlainClient(Load) (driver, error) { return nil, errors.New("needs Linux: epoll") }
