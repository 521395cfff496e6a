//go:build !linux

package main

import "errors"

func newPlainClient(load) (driver, error) { return nil, errors.New("needs Linux: epoll") }
