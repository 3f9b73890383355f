"""The Celery worker."""
