// Package client tests clients as programs use them.
package client
