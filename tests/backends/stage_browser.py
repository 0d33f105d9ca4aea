def run(context):
    pass
