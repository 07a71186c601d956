// Package redact takes secrets out of text before it reaches a disk or a page: make a [Redactor] from the secrets of a run
// and put it between a program and its log.
package redact
