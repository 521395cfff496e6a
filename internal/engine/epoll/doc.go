// Package epoll waits for sockets with epoll(7): a core.Source, and the engine over
// it. It runs on Linux, on amd64 and arm64; elsewhere New returns an error.
package epoll
