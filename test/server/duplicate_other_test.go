//go:build !unix

package server_test

const canDuplicate = false
