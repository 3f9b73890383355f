"""The sidecar: a Flask app under gunicorn."""
