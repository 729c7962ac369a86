//go:build !unix

package main

func flockPeer(*worker) []wish { return nil }
