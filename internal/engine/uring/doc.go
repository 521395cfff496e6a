// Package uring sends on many sockets with one system call, by io_uring(7).
//
// A Ring is used for sends that cannot wait. All sends of a Submit have been made when it
// returns, so a Ring holds no memory of its caller, and nothing of it depends on the thread.
package uring

import "sync"

// Obstacle returns why rings cannot be used in this process; nil if they can. It probes the
// kernel once. Containers may forbid what the kernel has.
var Obstacle = sync.OnceValue(obstacle)
