// Package browser shows that the page of turnwise serve works, in headless Chromium. It is skipped where there is none.
package browser
