//go:build !linux

package main

import "errors"

// A client is not there: measuring needs Linux, building does not.
type client struct{}

func newClient(load) (*client, error) { return nil, errors.ErrUnsupported }

func (*client) run() (loadResult, error) { return loadResult{}, errors.ErrUnsupported }
