// Package process runs servers and clients as processes of their own, so that their
// CPU time and memory can be told apart.
package process
