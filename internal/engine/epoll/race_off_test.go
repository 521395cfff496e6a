//go:build !race && linux && (amd64 || arm64)

package epoll

const raceEnabled = false
