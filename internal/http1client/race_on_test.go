//go:build race

package http1client

const isRace = true
