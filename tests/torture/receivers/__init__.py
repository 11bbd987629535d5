"""Every kind of receiver before a service that does it harm, and while whoever tells it is killed."""
